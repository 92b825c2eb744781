"""Attention computed by hand: three tokens in two dimensions, step by step, forward and backward.

Article, section 6 ("手算示例：3 个 token，2 维"): X = [[1, 0], [0, 1], [1, 1]] with all projections the identity.
For the third token the article has the weights 0.248, 0.248, 0.504 and the output 0.752, 0.752. (To four digits the
weights are 0.2483, 0.2483, 0.5035; the article rounds the last one so that the weights sum to 1.) The backward pass is
not in the article.
"""

import math

import numpy as np

import tinyattn as ta
from harness import example


def attention_step_by_step(x):
    """The four stages of the article, as tensors."""
    queries = keys = values = x
    scores = queries @ keys.T  # (3, 3)
    scaled = scores / math.sqrt(2)
    weights = ta.softmax(scaled)
    output = weights @ values  # (3, 2)
    return {"scores": scores, "scaled": scaled, "weights": weights, "output": output}


@example
def main(run):
    x = ta.tensor([[1, 0], [0, 1], [1, 1]], dtype=np.float64, requires_grad=True)
    steps = attention_step_by_step(x)
    for tensor in steps.values():
        tensor.retain_grad()

    for name, tensor in steps.items():
        run.print_matrix(name, tensor.numpy())

    weights, output = steps["weights"].numpy()[2], steps["output"].numpy()[2]
    print(f"\nthird token: weights {weights.round(4)}, output {output.round(4)}")
    assert np.round(weights[:2], 3).tolist() == [0.248, 0.248]
    assert 1 - 2 * np.round(weights[0], 3) == 0.504 and abs(weights[2] - 0.504) < 6e-4
    assert np.round(output, 3).tolist() == [0.752, 0.752]

    print("\nBackward, for the first element of the third token's output:\n")
    cotangent = np.zeros((3, 2))
    cotangent[2, 0] = 1
    steps["output"].backward(cotangent)
    for name in reversed(steps):
        run.print_matrix(f"gradient of {name}", steps[name].grad.numpy())
    run.print_matrix("gradient of x", x.grad.numpy())

    row_sums = steps["scaled"].grad.numpy().sum(axis=-1)
    print(f"\nRow sums of the gradient of the scores, 0 because of softmax: {row_sums.round(12)}")
    assert np.abs(row_sums).max() < 1e-12

    fused = ta.scaled_dot_product_attention(x, x, x).numpy()
    assert np.abs(fused - steps["output"].numpy()).max() < 1e-12
    ta.gradcheck(lambda x: attention_step_by_step(x)["output"], [x])

    figure, axes = run.figure(1, 3)
    for panel, name in zip(axes, ("scaled", "weights", "output"), strict=True):
        run.draw_matrix(panel, name, steps[name].numpy())
    run.save(figure)


if __name__ == "__main__":
    main()
