"""Addition with broadcasting."""

import numpy as np

from ...survey.cases import case, normal
from ..exercise import Exercise, Vjp

WORDS = """
Addition, with broadcasting

out = x + y. Where the shapes differ NumPy broadcasts: it lines the shapes up at their last axis, and copies what has an
axis of length 1 there, or none, along it. A bias of shape (4,) is added to each of the rows of an array (3, 4).

You get g, the cotangent of out: g[i] says by how much the loss grows if out[i] does. Return the cotangents of x and of
y, a tuple (dx, dy), each of the shape of its input.

Elsewhere in this course the engine undoes the broadcasting for you. Here it is the exercise.
"""


def add(x, y):
    """The forward pass."""
    return x + y


def add_vjp(g, out, x, y):
    """The cotangents (dx, dy) of x and y, from g, the cotangent of out = x + y."""
    raise NotImplementedError("add_vjp is yours to write")


def try_it():
    x, y = np.zeros((3, 4)), np.zeros(4)
    g = np.arange(12.0).reshape(3, 4)
    dx, dy = add_vjp(g, add(x, y), x, y)
    print("dx", dx.shape, "expected (3, 4)")
    print("dy", dy, "expected [12, 15, 18, 21]")


EXERCISE = Exercise(
    title="Addition, with broadcasting",
    minutes=20,
    words=WORDS,
    given=(add,),
    parts=(
        Vjp(
            add_vjp,
            "add",
            cases=(
                case(normal(3, 4), normal(4)),
                case(normal(3, 4), normal(3, 4)),
                case(normal(4), normal(2, 3, 4)),
                case(normal(3, 1), normal(1, 4)),
                case(normal(3, 3), normal(3, 1)),
                case(normal(2, 3), normal()),
                case(normal(1, 4), normal(1, 4)),
            ),
            undoes_broadcasting=True,
        ),
    ),
    hints=(
        "Without broadcasting: if x[i] grows by a little, by how much does out[i]? What is dx then?",
        "With x of shape (3, 4) and y of shape (4,): which elements of out does y[0] move, and how does the loss "
        "hear of all of them?",
        "Which axes of g does y not have at all, and along which has it the length 1? What has to be done along "
        "each, so that the result has the shape of y?",
    ),
    try_it=try_it,
)
