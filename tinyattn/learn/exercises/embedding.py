"""The embedding, with ids that occur more than once."""

import numpy as np

from ...survey.cases import Case, case, integers, normal
from ..exercise import Exercise, Vjp

WORDS = """
The embedding, with repeated ids

    out[n] = weight[ids[n]]:
each token is a number, and picks a row of a table. ids is an array of whole numbers of any shape, such as (batch,
length); out has that shape followed by the length of a row.

From g, the cotangent of out, return the cotangent of the weight, of the shape of the table. ids has no gradient.
In a text the same token occurs many times. The difficulty is there.
"""


def embedding(ids, weight):
    """The forward pass."""
    return weight[ids]


def embedding_vjp(g, out, ids, weight):
    """The cotangent of the weight, from g, the cotangent of out = weight[ids]."""
    raise NotImplementedError("embedding_vjp is yours to write")


def try_it():
    weight, ids = np.zeros((4, 2)), np.array([2, 0, 2])
    g = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    print(embedding_vjp(g, embedding(ids, weight), ids, weight))
    print("expected rows of 2, 0, 4 and 0")


EXERCISE = Exercise(
    title="Embedding, with repeated ids",
    minutes=15,
    words=WORDS,
    given=(embedding,),
    parts=(
        Vjp(
            embedding_vjp,
            "embedding",
            cases=(
                Case((np.array([2, 0, 2]), normal(4, 3))),
                Case((np.array([[1, 1, 1], [0, 1, 4]]), normal(5, 2))),
                case(integers(6, 2, 3, 2), normal(6, 3)),
                Case((np.array([0, 1, 2]), normal(3, 3))),
                Case((np.array([3]), normal(4, 2))),
            ),
        ),
    ),
    hints=(
        "Which elements of out does weight[2] move, if ids is [2, 0, 2]? And a row that no id names?",
        "A row was copied to several places. What did copies mean for the cotangent in the exercise on addition?",
        "What does dW[ids] += g do where ids holds the same number twice? Try it. What does np.add.at do instead?",
    ),
    try_it=try_it,
)
