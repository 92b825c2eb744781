"""Why scores are divided by sqrt(d_k): without it, softmax saturates and its gradient vanishes.

Article, section 4 ("完整公式：逐步拆解", stage 2). Claims: for independent components of mean 0 and variance 1,
Var[q.k] = d_k; without the division softmax becomes nearly one-hot and its gradient vanishes; with it, nothing
depends on d_k. (The article also says that the expected value of the dot product grows with d_k. It is always 0, as in
the article's own formula two lines later: the variance grows linearly, and the typical magnitude as sqrt(d_k). And
saturation starts late: at d_k = 16 the gradient is larger without the division than with it, at 64 almost as large.)

Measured: the mean and variance of q.k over many pairs; then, for queries with 64 keys each, the largest weight, the
entropy of the weights (relative to that of even weights), the norm of the Jacobian of softmax, and the norm of the
gradient of the scores for a random cotangent of the weights: medians over the queries.
"""

import numpy as np

import tinyattn as ta
from harness import BLUE, ORANGE, example

KEYS = 64


def dot_products(d_k, pairs=20_000, seed=0):
    """q.k for independent q and k, (pairs,), whose components are normal with mean 0 and variance 1."""
    random = np.random.default_rng(seed)
    q = random.standard_normal((pairs, d_k), dtype=np.float32)
    k = random.standard_normal((pairs, d_k), dtype=np.float32)
    return np.einsum("pd,pd->p", q, k)


def saturation(d_k, scaled, queries=256, seed=0):
    """Measures of how peaked the weights are, and of the gradient: a dict of medians over the queries."""
    random = np.random.default_rng(seed)
    q, k = random.standard_normal((queries, d_k)), random.standard_normal((KEYS, d_k))
    scores = ta.tensor(q @ k.T * (d_k**-0.5 if scaled else 1.0), requires_grad=True)
    weights = ta.softmax(scores)  # (queries, KEYS)
    cotangent = random.standard_normal(weights.shape)
    (gradient,) = ta.grad(weights, [scores], grad_outputs=[cotangent])

    p = weights.numpy()
    jacobians = np.eye(KEYS) * p[:, None, :] - p[:, :, None] * p[:, None, :]
    logarithms = np.log(p, where=p > 0, out=np.zeros_like(p))
    return {
        "largest weight": np.median(p.max(axis=-1)),
        "entropy": np.median(-(p * logarithms).sum(axis=-1)) / np.log(KEYS),
        "Jacobian": np.median(np.linalg.norm(jacobians, axis=(1, 2))),
        "gradient": np.median(np.linalg.norm(gradient.numpy(), axis=-1)),
    }


@example
def main(run):
    sizes = run.choose((4, 16, 64, 256, 1024), (4, 64, 1024))
    products = {d_k: dot_products(d_k, run.choose(50_000, 5_000)) for d_k in sizes}
    measured = {(d_k, s): saturation(d_k, s) for d_k in sizes for s in (True, False)}

    print("q.k over many pairs:\n")
    run.print_table(
        ("d_k", "mean", "variance", "variance / d_k"),
        [
            (d_k, f"{x.mean():.2f}", f"{x.var():.1f}", f"{x.var() / d_k:.3f}")
            for d_k, x in products.items()
        ],
    )
    print(f"\nSoftmax over {KEYS} keys, medians over queries:\n")
    names = tuple(measured[sizes[0], True])
    run.print_table(
        ("d_k", "divided", *names),
        [
            (d_k, "yes" if scaled else "no", *(f"{row[name]:.2g}" for name in names))
            for (d_k, scaled), row in measured.items()
        ],
    )

    for d_k, x in products.items():
        assert abs(x.var() / d_k - 1) < 0.1
        assert abs(x.mean()) < 5 * (d_k / len(x)) ** 0.5  # five standard errors
    small, large = sizes[0], sizes[-1]
    for name in names:  # with the division, they do not depend on d_k
        assert 0.7 < measured[large, True][name] / measured[small, True][name] < 1.4
    assert measured[large, False]["largest weight"] > 0.95
    assert measured[large, False]["entropy"] < 0.1
    for name in ("Jacobian", "gradient"):
        assert measured[large, False][name] < 0.1 * measured[large, True][name]

    draw(run, sizes, products, measured)


def draw(run, sizes, products, measured):
    figure, (left, middle, right) = run.figure(1, 3)
    left.loglog(sizes, [products[d_k].var() for d_k in sizes], "o", color=BLUE, label="measured")
    left.loglog(sizes, sizes, "--", color="gray", label="$d_k$")
    left.set(title="variance of q.k", xlabel="$d_k$")
    left.legend()
    for scaled, color, name in (
        (True, BLUE, r"divided by $\sqrt{d_k}$"),
        (False, ORANGE, "not divided"),
    ):
        style = {"color": color, "marker": "o", "label": name}
        middle.semilogx(sizes, [measured[d, scaled]["largest weight"] for d in sizes], **style)
        right.loglog(sizes, [measured[d, scaled]["gradient"] for d in sizes], **style)
    middle.set(title=f"largest of {KEYS} weights", xlabel="$d_k$", ylim=(0, 1.05))
    right.set(title="gradient of the scores", xlabel="$d_k$")
    right.legend(loc="lower left")
    run.save(figure)


if __name__ == "__main__":
    main()
