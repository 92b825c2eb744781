"""A causal mask must be applied before the softmax: after it, rows do not sum to 1, and the future leaks.

Article, section 7 ("Causal Mask：让模型“不能偷看未来”"). Claims: masked before, rows sum to 1 and outputs do not
depend on the future; masked after, rows do not sum to 1. Worse, which the article does not say: the sum depends on
future scores, and so do outputs and gradients.

Measured: row sums; the change of the outputs if the last token changes; the gradient of the outputs with respect to
scores of future keys; and how a small model exploits the leak to predict random bits. These cannot be predicted: a loss
below ln 2 = 0.693 nats uses the future, which is not available during generation.

Masking after, and dividing by the remaining sum of the row, is equal to masking before. But the maximum that softmax
subtracts is that of the whole row: if a future score is far above the visible ones, their weights underflow to 0, and
0 / 0 is NaN.
"""

import math

import numpy as np

import tinyattn as ta
from harness import BLUE, ORANGE, example, fit
from tinyattn import nn


def weights_of(scores, way):
    """Causal weights from scores (..., length, length), masked ``"before"``, ``"after"``, or after and renormalized."""
    length = scores.shape[-1]
    visible = np.tril(np.ones((length, length), bool))
    if way == "before":
        return ta.softmax(ta.where(visible, scores, -math.inf))
    weights = ta.where(visible, ta.softmax(scores), 0.0)
    return weights / weights.sum(axis=-1, keepdims=True) if way == "renormalized" else weights


WAYS = ("before", "after", "renormalized")


def measure_leak(way, length=6, head_dim=8, seed=0):
    """Row sums, change of earlier outputs if the last token changes, and gradient with respect to future scores."""
    random = np.random.default_rng(seed)
    q, k, v = random.standard_normal((3, length, head_dim))
    other = k.copy()
    other[-1] = random.standard_normal(head_dim)

    def outputs(keys):
        scores = ta.tensor(q @ keys.T / math.sqrt(head_dim), requires_grad=True)
        weights = weights_of(scores, way)
        return scores, weights, weights @ v

    scores, weights, out = outputs(k)
    (gradient,) = ta.grad(out, [scores], grad_outputs=[random.standard_normal(out.shape)])
    change = out.numpy() - outputs(other)[2].numpy()
    return {
        "weights": weights.numpy(),
        "row sums": weights.numpy().sum(axis=-1),
        "change": np.linalg.norm(change, axis=-1)[:-1],
        "future gradient": np.abs(np.triu(gradient.numpy(), 1)).max(),
        "gradient": gradient.numpy(),
    }


class BitPredictor(nn.Module):
    """One head of attention over tokens and positions, and a linear layer that predicts the next bit."""

    def __init__(self, way, length, dim=16):
        self.way = way
        self.embedding = nn.Embedding(2, dim)
        self.positions = nn.LearnedPositions(length, dim)
        self.query, self.key, self.value = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.readout = nn.Linear(dim, 2)

    def forward(self, bits):
        x = self.positions(self.embedding(bits))
        scores = self.query(x) @ self.key(x).mT * 16**-0.5
        return self.readout(weights_of(scores, self.way) @ self.value(x))


def loss_on_random_bits(way, steps, length=6, seed=0):
    """The loss at each position, (length - 1,), on new random bits, after training to predict the next bit."""
    ta.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = BitPredictor(way, length)

    def losses(count):
        bits = random.integers(0, 2, (count, length))
        logits = model(bits)[:, :-1]
        return ta.cross_entropy(logits, bits[:, 1:], reduction="none")

    fit(model.parameters(), lambda: losses(64).mean(), steps, learning_rate=2e-2)
    with ta.no_grad():
        return losses(4000).numpy().mean(axis=0)


def renormalized_far_above(gap):
    """The first row of weights, for both masks, if a future score is ``gap`` above the visible one."""
    scores = ta.tensor([[0.0, gap], [0.0, 0.0]])
    return {way: weights_of(scores, way).numpy()[0] for way in ("before", "renormalized")}


@example
def main(run):
    leaks = {way: measure_leak(way) for way in WAYS}
    print(
        "masked        row sums                                   change by last token  future gradient"
    )
    for way, leak in leaks.items():
        sums = " ".join(f"{value:.3f}" for value in leak["row sums"])
        print(f"{way:12}  {sums}  {leak['change'].max():20.1e}  {leak['future gradient']:15.1e}")

    steps = run.choose(500, 150)
    losses = {way: loss_on_random_bits(way, steps) for way in WAYS[:2]}
    print("\nloss on random bits, by position (ln 2 = 0.693 is the entropy):\n")
    for way, values in losses.items():
        print(f"{way:12}  " + "  ".join(f"{value:.3f}" for value in values))

    print("\nfirst row, if the masked score is above the visible one:\n")
    for gap in (10.0, 200.0):
        rows = renormalized_far_above(gap)
        print(f"by {gap:3.0f}   " + "   ".join(f"{way} {row}" for way, row in rows.items()))

    before, after, renormalized = leaks.values()
    for kept in (before, renormalized):
        assert np.abs(kept["row sums"] - 1).max() < 1e-12
        assert kept["change"].max() < 1e-12 and kept["future gradient"] < 1e-12
    assert np.abs(renormalized["weights"] - before["weights"]).max() < 1e-12
    assert (after["row sums"][:-1] < 0.97).all()
    assert after["change"].min() > 1e-3 and after["future gradient"] > 1e-2
    assert losses["before"].min() > 0.65
    assert losses["after"].min() < 0.5
    assert np.isnan(renormalized_far_above(200.0)["renormalized"][0])
    assert renormalized_far_above(200.0)["before"].tolist() == [1.0, 0.0]

    figure, axes = run.figure(1, 3)
    for panel, way in zip(axes, WAYS[:2]):
        run.draw_matrix(
            panel, f"gradient of the scores,\nmasked {way} the softmax", leaks[way]["gradient"]
        )
    for way, color in (("before", BLUE), ("after", ORANGE)):
        axes[2].plot(
            range(1, len(losses[way]) + 1), losses[way], "o-", color=color, label=f"masked {way}"
        )
    axes[2].axhline(math.log(2), linestyle="--", color="gray", label="ln 2")
    axes[2].set(title="loss on random bits", xlabel="position", ylabel="nats", ylim=(0, 0.8))
    axes[2].legend(loc="lower left")
    run.save(figure)


if __name__ == "__main__":
    main()
