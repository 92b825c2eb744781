"""Layer norm."""

import numpy as np

from ...survey.cases import case, normal, positive
from ..exercise import Exercise, Extreme, Vjp, Walkthrough

WORDS = """
Layer norm

Each row of x is brought to mean 0 and variance 1, then scaled and shifted by a learned weight w and bias b:
    mu = mean(x),    sigma = sqrt(mean((x - mu)^2) + eps),    z = (x - mu) / sigma,    y = w z + b.
A row consists of the elements along `axes`, a tuple such as (-1,); the means are taken along them.
mu and sigma are functions of x: each x_j moves every z_i of its row, directly, through mu, and through sigma.

From g, the cotangent of y, return the tuple (dx, dw, db). w and b were copied to all rows; you may return dw and db
with one entry for each row, as the engine adds them up. (In a model without biases b is None: its db is not looked at.)

Work from the outside in: the cotangent of z first, then dz_i/dx_j, then the sum over i. Three terms remain.
"""


def layer_norm(x, w, b, axes=(-1,), eps=1e-5):
    """The forward pass."""
    c = x - x.mean(axis=axes, keepdims=True)
    sigma = np.sqrt((c * c).mean(axis=axes, keepdims=True) + eps)
    return w * (c / sigma) + b


def layer_norm_vjp(g, y, x, w, b, axes=(-1,), eps=1e-5):
    """The cotangents (dx, dw, db) of x, w and b, from g, the cotangent of y = layer_norm(x, w, b, axes, eps)."""
    raise NotImplementedError("layer_norm_vjp is yours to write")


def try_it():
    x, g = np.array([[1.0, 2.0, 3.0, 6.0]]), np.array([[1.0, 0.0, 0.0, 0.0]])
    w, b = np.ones(4), np.zeros(4)
    dx, dw, _ = layer_norm_vjp(g, layer_norm(x, w, b), x, w, b)
    print("dx", dx, "expected [0.2482, -0.2100, -0.1336, 0.0954]")
    print("    adds up to", dx.sum(), "expected 0: a shift of the row changes nothing")
    print("dw", dw, "expected [-1.0690, 0, 0, 0]")


EXERCISE = Exercise(
    title="Layer norm",
    minutes=40,
    words=WORDS,
    given=(layer_norm,),
    parts=(
        Vjp(
            layer_norm_vjp,
            "layer_norm",
            cases=(
                case(normal(3, 5), positive(5), normal(5), axes=(-1,), eps=1e-5),
                case(normal(2, 3, 4), positive(4), normal(4), axes=(-1,), eps=0.1),
                case(normal(4, 4), normal(4), normal(4), axes=(-1,), eps=1e-5),
                case(normal(2, 3, 4), positive(3, 4), normal(3, 4), axes=(-2, -1), eps=0.1),
                case(normal(1, 6), positive(6), normal(6), axes=(-1,), eps=1e-5),
            ),
            extremes=(
                Extreme(
                    "a row of equal numbers",
                    (np.array([[2.0, 2.0, 2.0], [1.0, 2.0, 4.0]]), np.ones(3), np.zeros(3)),
                    {"axes": (-1,), "eps": 1e-5},
                ),
            ),
            walkthrough=Walkthrough(
                "layer_norm",
                ("x", np.ones(4), np.zeros(4)),
                "z",
                ("dx", None, None),
                cotangent="p",
                parameters={"axes": (-1,), "eps": 1e-5},
            ),
        ),
    ),
    hints=(
        "db and dw are addition and multiplication: what multiplies w? And what is the cotangent p of z?",
        "With c = x - mu: what is dc_i/dx_j? What is dsigma/dx_j: which part of it vanishes because the c_i of a "
        "row add up to 0? Put both into dz_i/dx_j and write the result with z and sigma only. Where does 1/n "
        "come from?",
        "dz_i/dx_j = (delta_ij - 1/n - z_i z_j / n) / sigma. Now sum p_i times it over i: what does each of the "
        "three terms become? Which two of them are means over the row?",
    ),
    try_it=try_it,
)
