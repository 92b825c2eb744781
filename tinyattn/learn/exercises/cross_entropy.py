"""Log-softmax, and the cross-entropy on top of it."""

import numpy as np

from ...survey.cases import Case, case, integers, normal
from ..exercise import Exercise, Extreme, Vjp, Walkthrough

WORDS = """
Log-softmax, and cross-entropy

The loss of a language model. The logits z of a row become log-probabilities,
    y_i = z_i - log sum_j exp(z_j),
and the loss is minus the log-probability of the class that came, the target t, averaged over all rows:
    loss = mean over the rows of -y_t.

 1. log_softmax_vjp: from g, the cotangent of y, return dx. You get y, from which the probabilities are exp(y).
 2. cross_entropy_vjp: from g, the cotangent of the loss and so a single number, return the cotangent of the logits, of
    shape (..., classes). target holds a class, 0 to classes - 1, for each row: its shape is that of the logits without
    the last axis. It has no gradient. (The answer to 1, and the gradient of picking one element, make 2.)
"""


def log_softmax(x, axis=-1):
    """The forward pass of 1."""
    x = x - x.max(axis=axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=axis, keepdims=True))


def cross_entropy(logits, target):
    """The forward pass of 2."""
    y = log_softmax(logits)
    return -np.take_along_axis(y, target[..., None], axis=-1).mean()


def log_softmax_vjp(g, y, x, axis=-1):
    """The cotangent dx of x, from g, the cotangent of y = log_softmax(x, axis)."""
    raise NotImplementedError("log_softmax_vjp is yours to write")


def cross_entropy_vjp(g, loss, logits, target):
    """The cotangent of the logits, from g, the cotangent of loss = cross_entropy(logits, target)."""
    raise NotImplementedError("cross_entropy_vjp is yours to write")


def try_it():
    z, g = np.array([2.0, 1.0, 0.0]), np.array([1.0, 0.0, 1.0])
    print("dx", log_softmax_vjp(g, log_softmax(z), z), "expected [-0.330, -0.489, 0.820]")
    z, target = np.array([[2.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), np.array([0, 2])
    loss = cross_entropy(z, target)
    print("dz\n", cross_entropy_vjp(np.array(1.0), loss, z, target))
    print("expected\n [[-0.167, 0.122, 0.045], [0.167, 0.167, -0.333]]")


EXERCISE = Exercise(
    title="Log-softmax and cross-entropy",
    minutes=30,
    words=WORDS,
    given=(log_softmax, cross_entropy),
    parts=(
        Vjp(
            log_softmax_vjp,
            "log_softmax",
            cases=(
                case(normal(3, 5)),
                case(normal(5)),
                case(normal(4, 4)),
                case(normal(2, 3, 4), axis=1),
                case(normal(3, 3), axis=0),
            ),
            extremes=(Extreme("scores of 1000", (np.array([[1000.0, 999.0, 0.0]]),)),),
        ),
        Vjp(
            cross_entropy_vjp,
            "cross_entropy",
            cases=(
                case(normal(4, 5), integers(5, 4)),
                Case((normal(3, 3), np.array([2, 2, 0]))),
                case(normal(2, 3, 4), integers(4, 2, 3)),
                case(normal(1, 6), integers(6, 1)),
            ),
            extremes=(
                Extreme(
                    "logits of 1000", (np.array([[1000.0, 0.0], [0.0, 1000.0]]), np.array([0, 0]))
                ),
            ),
            walkthrough=Walkthrough(
                "cross_entropy", ("z", "t"), "loss", ("dz", None), cotangent=None
            ),
        ),
    ),
    hints=(
        "What is the derivative of log sum_j exp(z_j) with respect to z_k? You have met it already.",
        "y_i = z_i - c, with the same c for the whole row. Each y_i sends g_i to z_i through its first term: and "
        "through c, which all of them contain, how much arrives at z_k in total?",
        "In the cross-entropy g is -1/rows at the target's place and 0 elsewhere: what is sum_i g_i then, and what "
        "becomes of 1's formula? (np.put_along_axis writes where take_along_axis reads.)",
    ),
    try_it=try_it,
)
