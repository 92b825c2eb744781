"""Why a gradient check passes a wrong softmax: a check detects only errors that its cotangent makes visible.

Article, section 4 ("阶段 3：Softmax 归一化"). The outputs of softmax sum to 1 for any scores. Claims: therefore
``y.sum()`` is constant, its gradient is zero, and a softmax whose backward is wrong by any factor, or returns zeros,
passes a check with ``loss = y.sum()``. The same holds for layer norm, whose outputs sum to 0. ``loss = (y**2).sum()``
is not a solution: with the cotangent 2y, a layer norm without its mean term passes. A random cotangent detects all of
these.

Measured: each known mutation of the rule is checked with three cotangents, with the table of ``tinyattn gradcheck
--break``; and the difference between the gradient of a mutated rule and the true one for each cotangent. Then the
effect of the step size: difference quotients in float32 and float64, the other reason why a wrong gradient can pass.
"""

import numpy as np

import tinyattn as ta
from harness import BLUE, GREEN, ORANGE, example
from tinyattn.survey.curve import STEPS, step_curve
from tinyattn.survey.mutations import CHECKS, break_rule, mutated

CLAIMED = {  # mutations that a check misses
    "softmax": {
        "ones": {
            "returns zeros",
            "is 7 times too large",
            "lacks the outer y",
            "has the wrong sign",
        },
        "sum(y**2)": set(),
    },
    "layer_norm": {
        "ones": {"returns zeros", "lacks the variance term", "has the wrong sign"},
        "sum(y**2)": {"lacks the mean term"},
    },
}


def gradient_under(cotangent_of, x):
    """The gradient of softmax at ``x`` for a cotangent that may depend on its output."""
    leaf = ta.tensor(x, requires_grad=True)
    y = ta.softmax(leaf)
    (gradient,) = ta.grad(y, leaf, ta.tensor(cotangent_of(y.numpy())))
    return gradient.numpy()


@example
def main(run):
    random = np.random.default_rng(0)
    for name, missed in CLAIMED.items():
        outcomes = list(break_rule(name))
        print(f"{name} whose gradient ...")
        run.print_table(
            ("mutation", *CHECKS),
            [
                (o.mutation.what, *("caught" if o.caught[c] else "missed" for c in CHECKS))
                for o in outcomes
            ],
        )
        print()
        for check, mutations in missed.items():
            passed = {o.mutation.what for o in outcomes if not o.caught[check]}
            assert mutations <= passed, (name, check, passed)
        assert all(o.caught["random"] for o in outcomes)

    # The true gradient, and one 7 times as large, for the three cotangents.
    x = random.standard_normal((1, 6))
    direction = random.standard_normal((1, 6))
    cotangents = {
        "ones": np.ones_like,
        "2y": lambda y: 2 * y,
        "random": lambda y: direction,
    }
    outcome = next(o for o in break_rule("softmax") if o.mutation.what == "is 7 times too large")
    true = {name: gradient_under(c, x) for name, c in cotangents.items()}
    with mutated("softmax", outcome.mutation):
        wrong = {name: gradient_under(c, x) for name, c in cotangents.items()}
    print("largest entry of the gradient of softmax, right and 7 times too large")
    run.print_table(
        ("cotangent", "right", "wrong"),
        [(n, f"{np.abs(true[n]).max():.1e}", f"{np.abs(wrong[n]).max():.1e}") for n in cotangents],
    )
    assert np.abs(true["ones"]).max() < 1e-15 and np.abs(wrong["ones"]).max() < 1e-14
    assert np.abs(wrong["random"] - true["random"]).max() > 0.1

    curve = step_curve("softmax")
    step, error = curve.best
    print(
        f"\nfloat64: error {error:.0e} at the step {step:.0e}; float32: {np.nanmin(curve.float32):.0e} at best"
    )
    assert error < 1e-9 and curve.float32[STEPS <= 1e-6].min() > 1e-3

    figure, (left, right) = run.figure(1, 2, width=4.2)
    places = np.arange(6)
    for offset, (name, color) in enumerate(zip(cotangents, (ORANGE, GREEN, BLUE), strict=True)):
        left.bar(places + 0.27 * (offset - 1), true[name][0], 0.25, color=color, label=name)
    left.set(title="true gradient of softmax, by cotangent", xlabel="score", xticks=places)
    left.axhline(0, color="black", linewidth=0.6)
    left.legend(title="cotangent")
    right.loglog(STEPS, np.maximum(curve.float64, 1e-16), color=BLUE, label="float64")
    right.loglog(STEPS, np.maximum(curve.float32, 1e-16), color=ORANGE, label="float32")
    right.axhline(max(curve.complex_step, 1e-16), color=GREEN, linestyle=":", label="complex step")
    right.invert_xaxis()
    right.set(title="error of a central difference", xlabel="step", ylabel="relative error")
    right.legend()
    run.save(figure)


if __name__ == "__main__":
    main()
