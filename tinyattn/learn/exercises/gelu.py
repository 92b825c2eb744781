"""GELU."""

import math

import numpy as np

from ...ops import erf
from ...survey.cases import Case, case, normal
from ..exercise import Exercise, Extreme, Vjp, Walkthrough

WORDS = """
GELU, the nonlinearity of GPT-2

    y = x Phi(x),
where Phi(x) is the probability that a standard normal number is below x. Large numbers pass, very negative ones become
0, and in between the change is smooth. Again, each element is independent. From g, the cotangent of y, return dx.

Phi has no formula in elementary functions: normal_cumulative computes it. Its derivative does have one.
"""


def normal_cumulative(x):
    """Phi(x), by the error function."""
    return 0.5 * (1 + erf.forward(x / math.sqrt(2)))


def gelu(x):
    """The forward pass."""
    return x * normal_cumulative(x)


def gelu_vjp(g, y, x):
    """The cotangent dx of x, from g, the cotangent of y = gelu(x)."""
    raise NotImplementedError("gelu_vjp is yours to write")


def try_it():
    x, g = np.array([-1.0, 0.0, 1.0]), np.array([1.0, 1.0, 2.0])
    print("dx", gelu_vjp(g, gelu(x), x), "expected [-0.0833, 0.5, 2.1666]")


EXERCISE = Exercise(
    title="GELU",
    minutes=15,
    words=WORDS,
    imports="import math\n\nimport numpy as np\nfrom tinyattn import erf\n",
    given=(normal_cumulative, gelu),
    parts=(
        Vjp(
            gelu_vjp,
            "gelu",
            cases=(
                case(normal(3, 4)),
                case(normal(5)),
                Case((np.linspace(-3, 3, 7),)),
                case(normal(2, 3, 2)),
            ),
            extremes=(Extreme("x = 30 and -30", (np.array([30.0, -30.0, 0.0]),)),),
            walkthrough=Walkthrough("gelu", ("x",), "y", ("dx",)),
        ),
    ),
    hints=(
        "y is a product of two functions of x. Which rule is that, and what are its two terms?",
        "Phi(x) is the area under the bell curve from -infinity to x. What is the derivative of an area with "
        "respect to where it ends?",
        "The bell curve is exp(-x^2 / 2), divided by its whole area: which number is that? And where does g come in?",
    ),
    try_it=try_it,
)
