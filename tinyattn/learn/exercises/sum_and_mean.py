"""Sum and mean along axes."""

import numpy as np

from ...survey.cases import case, normal
from ..exercise import Exercise, Vjp

WORDS = """
Sum and mean

Many elements make one. With x of shape (2, 3, 4), sum(x, axis=1) has shape (2, 4): axis 1 is gone, or of length 1 if
keepdims is true. axis may be None (all axes), a number, negative too, or a tuple of numbers.

From g, the cotangent of out and of its shape, return dx, of the shape of x; once for the sum and once for the mean.
NumPy lines shapes up at their last axis. That is the whole difficulty.
"""


def sum_vjp(g, out, x, axis=None, keepdims=False):
    """The cotangent dx of x, from g, the cotangent of out = x.sum(axis=axis, keepdims=keepdims)."""
    raise NotImplementedError("sum_vjp is yours to write")


def mean_vjp(g, out, x, axis=None, keepdims=False):
    """The cotangent dx of x, from g, the cotangent of out = x.mean(axis=axis, keepdims=keepdims)."""
    raise NotImplementedError("mean_vjp is yours to write")


def try_it():
    x, g = np.ones((3, 3)), np.array([1.0, 2.0, 3.0])
    print(sum_vjp(g, x.sum(axis=1), x, axis=1), "\nexpected rows of 1, of 2 and of 3")
    print(mean_vjp(g, x.mean(axis=1), x, axis=1), "\nexpected a third of that")


CASES = (
    case(normal(3, 3), axis=1),
    case(normal(3, 3), axis=0),
    case(normal(3, 4)),
    case(normal(2, 3, 4), axis=1),
    case(normal(2, 3, 4), axis=(0, 2)),
    case(normal(2, 3, 4), axis=-1, keepdims=True),
    case(normal(5), axis=0),
)

EXERCISE = Exercise(
    title="Sum and mean",
    minutes=20,
    words=WORDS,
    parts=(Vjp(sum_vjp, "sum", CASES), Vjp(mean_vjp, "mean", CASES)),
    hints=(
        "If x[0] grows by a little, by how much does x.sum() grow? And x.mean()?",
        "With x of shape (3, 4) and the sum along axis 1, g has shape (3,). To which elements of x does g[0] belong? "
        "What does NumPy do with shapes (3,) and (3, 4)?",
        "What would the shape of out have been with keepdims=True, and what does np.broadcast_to do with g in "
        "that shape? (np.expand_dims takes an axis or a tuple of them.) How many elements of x make one element "
        "of the mean?",
    ),
    try_it=try_it,
)
