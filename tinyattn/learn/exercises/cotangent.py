"""The cotangent: why a backward pass multiplies a vector by Jacobians, and never builds one."""

import itertools

import numpy as np

from ..exercise import Exercise, Function

WORDS = """
The cotangent: why not the Jacobian

A network is a chain of functions, h_1 = f_1(x), h_2 = f_2(h_1), ..., with one number at its end, the loss L. What is
asked for is dL/dx. Each f_k has a Jacobian J_k: a table with a row for each output and a column for each input,
    J_k[i, j] = d(output i) / d(input j).
The chain rule multiplies these tables. But tables are large: that of a layer from 10,000 numbers to 10,000 numbers has
100,000,000 entries. L is a single number, so its gradient with respect to any h is just a vector, as long as h. It is
called the cotangent of h, and in this course always g. A backward pass takes the cotangent of an output to that of the
input,
    g_in[j] = sum over i of g_out[i] J[i, j],
and never needs the table. Such a step is called a vector-Jacobian product, in short vjp. All other exercises of this
course are vjps written without any table.

Two functions, to see the two sides of it:
 1. pull_back(g, jacobians): g is the cotangent of the last output, jacobians the list [J_1, J_2, ...] in the order in
    which the functions ran. Return dL/dx.
 2. jacobian(vjp, outputs, inputs): vjp(g) is a function that takes a cotangent, a vector of length `outputs`, to the
    cotangent of the input, a vector of length `inputs`. Build the table out of calls of vjp. How many does it take?
"""


def pull_back(g, jacobians):
    """dL/dx from g = dL/dy, for y = f_n(...f_2(f_1(x))) with the Jacobians [J_1, ..., J_n], each (outputs, inputs)."""
    raise NotImplementedError("pull_back is yours to write")


def jacobian(vjp, outputs, inputs):
    """The Jacobian, an array (outputs, inputs), of the function that `vjp` is the backward pass of."""
    raise NotImplementedError("jacobian is yours to write")


def try_it():
    J_1 = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0]])  # from 3 numbers to 2
    J_2 = np.array([[3.0, 1.0]])  # from 2 numbers to 1
    print("pulled back:", pull_back(np.array([1.0]), [J_1, J_2]), " expected [3, 7, -1]")
    print("Jacobian:\n", jacobian(lambda g: g @ J_1, 2, 3), " expected J_1")


def our_pull_back(g, jacobians):
    for J in reversed(jacobians):
        g = g @ J  # (outputs) (outputs, inputs) -> (inputs)
    return g


def our_jacobian(vjp, outputs, inputs):
    rows = [
        vjp(row) for row in np.eye(outputs)
    ]  # with a cotangent of 0 ... 1 ... 0, one output at a time
    return np.array(rows).reshape(outputs, inputs)


def draw_chain(random):
    for lengths in ((4, 3), (3, 3, 3), (5, 2, 4, 3), (2, 6, 1), (3, 3, 3, 3, 3)):
        jacobians = [random.standard_normal((n, m)) for m, n in itertools.pairwise(lengths)]
        label = "lengths " + " -> ".join(map(str, lengths))
        yield label, (random.standard_normal(lengths[-1]), jacobians)


def draw_vjp(random):
    for outputs, inputs in ((2, 3), (3, 3), (4, 1), (1, 5)):
        J = random.standard_normal((outputs, inputs))
        yield f"{outputs} outputs, {inputs} inputs", (lambda g, J=J: g @ J, outputs, inputs)


EXERCISE = Exercise(
    title="The cotangent",
    minutes=15,
    words=WORDS,
    parts=(
        Function(
            pull_back,
            our_pull_back,
            draw_chain,
            mistakes={
                "goes through the functions in the order in which they ran": (
                    lambda g, jacobians: _product(g, jacobians),
                    "the cotangent is that of the last output: the last function comes first",
                ),
                "multiplies by the transposed Jacobians": (
                    lambda g, jacobians: _product(g, [J.T for J in jacobians[::-1]]),
                    "g[i] belongs to output i, a row of J: the sum runs over the rows, g @ J and not J @ g",
                ),
                "goes forward and multiplies J @ g": (
                    lambda g, jacobians: _product(g, [J.T for J in jacobians]),
                    "J @ g carries a change of the input to the outputs; a cotangent goes the other way, g @ J",
                ),
                "lacks g": (
                    lambda g, jacobians: our_pull_back(np.ones_like(g), jacobians),
                    "the outputs matter to the loss as much as their cotangents say, not all alike",
                ),
                "leaves out the first function": (
                    lambda g, jacobians: our_pull_back(g, jacobians[1:]),
                    "x is the input of the first function: J_1 is part of the chain",
                ),
            },
            outputs=lambda result: {"dL/dx": result},
        ),
        Function(
            jacobian,
            our_jacobian,
            draw_vjp,
            mistakes={
                "is the transpose of the right one": (
                    lambda vjp, outputs, inputs: our_jacobian(vjp, outputs, inputs).T,
                    "vjp of output i's unit vector is row i",
                ),
                "keeps the diagonal only": (
                    lambda vjp, outputs, inputs: (
                        our_jacobian(vjp, outputs, inputs) * np.eye(outputs, inputs)
                    ),
                    "vjp of output i's unit vector is all of row i",
                ),
                "has the same row everywhere": (
                    lambda vjp, outputs, inputs: np.array([vjp(np.ones(outputs))] * outputs),
                    "a cotangent of ones adds up all rows; a single 1 picks one of them",
                ),
            },
            outputs=lambda result: {"J": result},
        ),
    ),
    hints=(
        "Which lengths have g and J_n, and in which of the two orders, g @ J_n or J_n @ g, does a product of "
        "them leave a vector as long as the input of f_n?",
        "After the last function has been undone, you hold the cotangent of h_{n-1}. Is what remains not the same "
        "question with one function less?",
        "What does vjp return for g = [1, 0, 0, ...], if g_in[j] = sum over i of g[i] J[i, j]? And for [0, 1, 0, "
        "...]?",
    ),
    try_it=try_it,
)


def _product(g, matrices):
    for matrix in matrices:
        g = g @ matrix
    return g
