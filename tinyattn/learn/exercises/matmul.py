"""The matrix product."""

import numpy as np

from ...survey.cases import case, normal, transposed
from ..exercise import Exercise, Vjp, Walkthrough

WORDS = """
The matrix product

out = a @ b, with a (..., n, k) and b (..., k, m), so that out is (..., n, m):
    out[i, j] = sum over l of a[i, l] b[l, j].
The axes in front, if there are any, are a batch of such products.

From g, the cotangent of out and of its shape, return the tuple (da, db). If b has no batch axes and a does, b is shared
by the whole batch; you may return one db for each product, as the engine adds them up.

Nearly all the arithmetic of a network is matrix products, and two thirds of it are these two of the backward pass.
"""


def matmul(a, b):
    """The forward pass."""
    return a @ b


def matmul_vjp(g, out, a, b):
    """The cotangents (da, db) of a and b, from g, the cotangent of out = a @ b."""
    raise NotImplementedError("matmul_vjp is yours to write")


def try_it():
    a, b = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([[1.0, 0.0], [0.0, -1.0]])
    g = np.zeros((3, 2))
    g[0, 1] = 1.0  # the loss is out[0, 1] = a[0, 0] b[0, 1] + a[0, 1] b[1, 1]
    da, db = matmul_vjp(g, matmul(a, b), a, b)
    print("da\n", da, "\nexpected [[0, -1], [0, 0], [0, 0]]")
    print("db\n", db, "\nexpected [[0, 1], [0, 2]]")


EXERCISE = Exercise(
    title="The matrix product",
    minutes=20,
    words=WORDS,
    given=(matmul,),
    parts=(
        Vjp(
            matmul_vjp,
            "matmul",
            cases=(
                case(normal(3, 4), normal(4, 2)),
                case(normal(3, 3), normal(3, 3)),
                case(normal(2, 3, 4), normal(2, 4, 5)),
                case(normal(2, 3, 3), normal(3, 3)),
                case(normal(2, 2, 3, 4), normal(2, 2, 4, 3)),
                case(normal(1, 4), normal(4, 3)),
                case(transposed(4, 3), transposed(2, 4)),
            ),
            walkthrough=Walkthrough("matmul", ("a", "b"), "y", ("da", "db")),
        ),
    ),
    hints=(
        "Take the loss to be a single element, out[i, j]. Which elements of a does it depend on, and with which "
        "factors?",
        "a[i, l] occurs in all of out[i, 0], out[i, 1], ..., each time with another factor. How do their cotangents "
        "combine to da[i, l]? Over which index does the sum run?",
        "g is (n, m), b is (k, m), and da must be (n, k): which product has that shape? And which one for db, "
        "(k, m)? (With batches: .T turns all axes around; np.swapaxes(b, -1, -2) only the last two.)",
    ),
    try_it=try_it,
)
