"""Attention, whole."""

import math

import numpy as np

from ...survey.cases import Case, Drawn, case, normal
from ..exercise import Exercise, Extreme, Vjp, Walkthrough
from .softmax import softmax

WORDS = """
Attention, whole

    S = scale Q K^T,    P = softmax(S) along the keys,    out = P V.
q is (..., queries, d), k is (..., keys, d), v is (..., keys, dv). For each query, out is the average of the values,
weighted by how well its q matches their keys. scale is 1 / sqrt(d), unless it is given. A query may see the keys where
mask is True (mask may be None), and if causal is true no later ones; what it may not see has the score -inf, before the
softmax.

From g, the cotangent of out, return the tuple (dq, dk, dv). You have written every step of it: two matrix products and
a softmax between them. attention_weights computes P for you, mask and all; call it in the backward pass again. What is
quadratic in the length need not be kept, which is how FlashAttention saves its memory.
"""


def attention_weights(q, k, mask=None, causal=False, scale=None):
    """P, (..., queries, keys)."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = scale * (q @ np.swapaxes(k, -1, -2))
    if causal:  # query i sees the keys up to i + keys - queries: the last query sees the last key
        queries, keys = scores.shape[-2:]
        scores = np.where(np.tri(queries, keys, keys - queries, dtype=bool), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    return softmax(scores)


def attention(q, k, v, mask=None, causal=False, scale=None):
    """The forward pass."""
    return attention_weights(q, k, mask, causal, scale) @ v


def attention_vjp(g, out, q, k, v, mask=None, causal=False, scale=None):
    """The cotangents (dq, dk, dv), from g, the cotangent of out = attention(q, k, v, mask, causal, scale)."""
    raise NotImplementedError("attention_vjp is yours to write")


def try_it():
    x = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # three tokens, the same for q, k and v
    g = np.zeros((3, 2))
    g[2, 0] = 1.0
    print("P\n", attention_weights(x, x))  # the last row: 0.248, 0.248, 0.503
    for name, d in zip(("dq", "dk", "dv"), attention_vjp(g, attention(x, x, x), x, x, x)):
        print(name, "\n", d)
    print("expected dv[:, 0] = [0.248, 0.248, 0.503], the weights of the last query")


EXERCISE = Exercise(
    title="Attention, whole",
    minutes=40,
    words=WORDS,
    imports="import math\n\nimport numpy as np\n",
    given=(softmax, attention_weights, attention),
    parts=(
        Vjp(
            attention_vjp,
            "attention",
            cases=(
                case(normal(3, 2), normal(3, 2), normal(3, 2), None),
                case(normal(4, 4), normal(4, 4), normal(4, 4), None),
                case(normal(2, 4, 3), normal(2, 5, 3), normal(2, 5, 2), None),
                case(normal(2, 4, 3), normal(2, 4, 3), normal(2, 4, 3), None, causal=True),
                case(normal(3, 2), normal(4, 2), normal(4, 2), None, causal=True, scale=0.9),
                Case(
                    (
                        *(normal(2, 3, 4) for _ in range(3)),
                        np.array([[1, 1, 0], [0, 1, 1], [1, 1, 1]], bool),
                    ),
                    {"scale": 0.5},
                ),
                Case(tuple(Drawn((2, 4, 3, 2), axes=(0, 2, 1, 3)) for _ in range(3)) + (None,)),
            ),
            extremes=(
                Extreme(
                    "a query that may see no key",
                    (
                        *np.random.default_rng(0).standard_normal((3, 3, 2)),
                        np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1]], bool),
                    ),
                ),
                Extreme(
                    "scores of 1000",
                    (
                        np.array([[40.0, 0.0], [0.0, 40.0], [30.0, 30.0]]),
                        np.array([[40.0, 0.0], [0.0, 39.9], [30.0, -30.0]]),
                        np.random.default_rng(2).standard_normal((3, 2)),
                        None,
                    ),
                ),
            ),
            walkthrough=Walkthrough(
                "attention", ("X", "X", "X", None), "O", ("dQ", "dK", "dV", None)
            ),
        ),
    ),
    hints=(
        "out = P V is a matrix product: what are the cotangents of P and of V, as in the exercise on matmul? You "
        "need both.",
        "From dP to dS is the softmax, row by row. Then S = scale Q K^T is a matrix product again, of Q and of a "
        "transposed K: what becomes of the transpose? Where does the scale go?",
        "dV = P^T g, dP = g V^T, dS = P * (dP - ?): along which axis is that sum? dQ and dK: which of them takes "
        "dS and which its transpose? What does a masked score need: is P not 0 there already?",
    ),
    try_it=try_it,
)
