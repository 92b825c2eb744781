"""Softmax."""

import numpy as np

from ...survey.cases import case, normal
from ..exercise import Exercise, Extreme, Vjp, Walkthrough

WORDS = """
Softmax

    y_i = exp(x_i) / sum_j exp(x_j),
along one axis: scores become a distribution, positive and adding up to 1. x may have more axes, such as (batch, length,
classes); every row along `axis` is then a softmax of its own. In attention the scores say how relevant each
token is to another, and y is how much attention it gets. The attention is a budget: what one gets, others lose. So each
y_i depends on all x_j of its row, and the Jacobian is a full table for each row.

From g, the cotangent of y, return dx, the cotangent of x. Work it out on paper first: dy_i/dx_j for j = i, and for j
not equal to i. Then sum g_i dy_i/dx_j over i, and see how far it simplifies: the result needs no table.
"""


def softmax(x, axis=-1):
    """The forward pass. The maximum cancels, and keeps exp from overflowing; a row of -inf gets zeros."""
    m = x.max(axis=axis, keepdims=True)
    e = np.exp(x - np.where(np.isfinite(m), m, 0))
    return e / np.maximum(e.sum(axis=axis, keepdims=True), 1)


def softmax_vjp(g, y, x, axis=-1):
    """The cotangent dx of x, from g, the cotangent of y = softmax(x, axis)."""
    raise NotImplementedError("softmax_vjp is yours to write")


def try_it():
    x, g = np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.0, 0.0])
    y, h = softmax(x), 1e-6
    # What dx should be, without any derivation: raise and lower one score at a time.
    raised = [g @ softmax(x + h * e) - g @ softmax(x - h * e) for e in np.eye(3)]
    print("expected", np.array(raised) / (2 * h))
    print("yours   ", softmax_vjp(g, y, x))


EXERCISE = Exercise(
    title="Softmax",
    minutes=40,
    words=WORDS,
    given=(softmax,),
    parts=(
        Vjp(
            softmax_vjp,
            "softmax",
            cases=(
                case(normal(3, 5)),
                case(normal(5)),
                case(normal(4, 4)),
                case(normal(2, 3, 4)),
                case(normal(2, 3, 4), axis=1),
                case(normal(3, 3), axis=0),
                case(normal(1, 6)),
            ),
            extremes=(
                Extreme("a row with scores of -inf", (np.array([[0.5, -np.inf, 1.0, -np.inf]]),)),
                Extreme("a row of -inf only", (np.full((2, 3), -np.inf),)),
                Extreme("a single class", (np.array([[2.0], [-1.0]]),)),
                Extreme(
                    "scores of 1000", (np.array([[1000.0, 999.0, 0.0], [-1000.0, 0.0, 1000.0]]),)
                ),
            ),
            walkthrough=Walkthrough("softmax", ("x",), "y", ("dx",)),
        ),
    ),
    hints=(
        "Which y_i change when x_j alone grows? Write down dy_i/dx_j with the quotient rule, once for i = j and "
        "once for i not equal to j. Can you write both with y only, without any exp?",
        "The two cases are one formula with delta_ij, which is 1 for i = j and 0 otherwise: which? Put it into "
        "dx_j = sum_i g_i dy_i/dx_j: what is left of the sum over delta_ij, and what is the other sum? Does it "
        "depend on j?",
        "dx_j has the factor y_j. What is the other factor, in brackets: what is subtracted from g_j? In NumPy: "
        "along which axis do you sum, and what does keepdims=True do for the subtraction?",
    ),
    try_it=try_it,
)
