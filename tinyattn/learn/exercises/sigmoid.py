"""The sigmoid."""

import numpy as np

from ...survey.cases import case, normal
from ..exercise import Exercise, Extreme, Vjp

WORDS = """
The sigmoid

    y = 1 / (1 + exp(-x)),
element by element, for an x of any shape: each y[i] depends on x[i] alone. Its Jacobian is diagonal, and the vjp is a
product of g with the slopes. From g, the cotangent of y, return dx.

You get y as well as x, and may use either. The derivative looks short in one of them.
"""


def sigmoid(x):
    """The forward pass. With exp(-|x|), which never overflows."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def sigmoid_vjp(g, y, x):
    """The cotangent dx of x, from g, the cotangent of y = sigmoid(x)."""
    raise NotImplementedError("sigmoid_vjp is yours to write")


def try_it():
    x, g = np.array([-2.0, 0.0, 2.0]), np.array([1.0, 1.0, 10.0])
    print("dx", sigmoid_vjp(g, sigmoid(x), x), "expected [0.105, 0.25, 1.05]")


EXERCISE = Exercise(
    title="The sigmoid",
    minutes=10,
    words=WORDS,
    given=(sigmoid,),
    parts=(
        Vjp(
            sigmoid_vjp,
            "sigmoid",
            cases=(case(normal(3, 4)), case(normal(5)), case(normal(2, 3, 2)), case(normal())),
            extremes=(
                Extreme("x = 1000, where y is 1", (np.array([1000.0, 30.0]),)),
                Extreme("x = -1000, where exp(-x) overflows", (np.array([-1000.0, -30.0]),)),
            ),
        ),
    ),
    hints=(
        "What is the derivative of 1 / u with respect to u, and that of 1 + exp(-x) with respect to x?",
        "You have exp(-x) / (1 + exp(-x))^2. Can you split it into two factors, one of which is y?",
        "What is 1 - y, written with exp(-x)? And where does g come in?",
    ),
    try_it=try_it,
)
