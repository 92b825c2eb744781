"""Conventions: slopes at kinks, ties, powers and roots at 0, rows of one number, and infinities."""

import numpy as np

from .extreme import INF, NAN, Extreme


def _dropped_infinities():
    """Dropout whose input or cotangent is infinite where the mask drops it, and where it does not."""
    import tinyattn  # noqa: F401  (registers the primitive)
    from tinyattn.autograd import PRIMITIVES

    kept = PRIMITIVES["dropout"].forward(np.ones(6), p=0.25, key=7) != 0
    assert kept.any() and not kept.all()
    x = np.where(kept, np.arange(6.0), INF)
    g = np.where(kept, [2.0, INF, 2.0, 2.0, 2.0, 2.0], INF)
    factor = np.where(kept, 4 / 3, 0.0)
    out = np.where(kept, np.arange(6.0) * 4 / 3, 0.0)
    return Extreme(
        "infinities that are dropped",
        "dropout",
        [x],
        g,
        [np.where(kept, g * np.where(kept, factor, 1.0), 0.0)],
        out,
        {"p": 0.25, "key": 7},
    )


CONVENTIONS = [
    # conventions at kinks
    Extreme("slope 0 at 0", "absolute", [[-2.0, 0.0, 3.0]], [5.0, 6.0, 7.0], [[-5.0, 0.0, 7.0]]),
    Extreme("slope 0 at 0", "relu", [[-2.0, 0.0, 3.0]], [5.0, 6.0, 7.0], [[0.0, 0.0, 7.0]]),
    Extreme(
        "a tie is shared",
        "maximum",
        [[1.0, 2.0, 0.0], [1.0, 0.0, 2.0]],
        [4.0, 5.0, 6.0],
        [[2.0, 5.0, 0.0], [2.0, 0.0, 6.0]],
    ),
    Extreme(
        "a tie is shared",
        "minimum",
        [[1.0, 2.0, 0.0], [1.0, 0.0, 2.0]],
        [4.0, 5.0, 6.0],
        [[2.0, 0.0, 6.0], [2.0, 5.0, 0.0]],
    ),
    Extreme("a tie is shared", "max", [[3.0, 1.0, 3.0, 3.0]], 6.0, [[2.0, 0.0, 2.0, 2.0]]),
    Extreme("a tie is shared", "min", [[3.0, 1.0, 1.0, 3.0]], 6.0, [[0.0, 3.0, 3.0, 0.0]]),
    Extreme(
        "bounds pass the cotangent",
        "clip",
        [[-2.0, -1.0, 0.0, 1.0, 2.0], -1.0, 1.0],
        [1.0, 2.0, 3.0, 4.0, 5.0],
        [[0.0, 2.0, 3.0, 4.0, 0.0]],
        [-1.0, -1.0, 0.0, 1.0, 1.0],
    ),
    Extreme(
        "bounds are differentiable",
        "clip",
        [[-2.0, 0.0, 2.0], [-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]],
        [1.0, 2.0, 3.0],
        [[0.0, 2.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 3.0]],
        [-1.0, 0.0, 1.0],
    ),
    Extreme(
        "the upper bound wins",
        "clip",
        [[0.0, 3.0, -3.0], [2.0, 2.0, 2.0], [1.0, 1.0, 1.0]],
        [1.0, 2.0, 3.0],
        [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 2.0, 3.0]],
        [1.0, 1.0, 1.0],
    ),
    Extreme(
        "only an upper bound",
        "clip",
        [[0.0, 3.0], None, [1.0, 1.0]],
        [2.0, 3.0],
        [[2.0, 0.0], None, [0.0, 3.0]],
    ),
    Extreme(
        "only a lower bound",
        "clip",
        [[0.0, 3.0], [1.0, 1.0], None],
        [2.0, 3.0],
        [[0.0, 3.0], [2.0, 0.0], None],
    ),
    # powers, roots, quotients at 0
    Extreme(
        "at base 0",
        "power",
        [[0.0, 0.0, 0.0, 2.0], [0.0, 1.0, 3.0, 3.0]],
        [5.0, 6.0, 7.0, 1.0],
        [[0.0, 6.0, 0.0, 12.0], [0.0, 0.0, 0.0, 8 * np.log(2.0)]],
        [1.0, 0.0, 0.0, 8.0],
    ),
    Extreme("at exponent 0", "power", [[0.0, 2.0], 0], [5.0, 6.0], [[0.0, 0.0]], [1.0, 1.0]),
    Extreme(
        "a number as base",
        "power",
        [2.0, [0.0, 3.0]],
        [5.0, 1.0],
        [None, [5 * np.log(2.0), 8 * np.log(2.0)]],
    ),
    Extreme("a number below 1 as base", "power", [0.5, [2.0]], [8.0], [None, [2 * np.log(0.5)]]),
    Extreme("0 to the power 0", "power", [0.0, [0.0]], [1.0], [None, [0.0]], [1.0]),
    Extreme(
        "the base 0 as number",
        "power",
        [0.0, [1.0, 3.0]],
        [5.0, 1.0],
        [None, [0.0, 0.0]],
        [0.0, 0.0],
    ),
    Extreme("a negative base as number", "power", [-2.0, [2.0]], [1.0], [None, [NAN]], [4.0]),
    Extreme("at 0, unused and used", "sqrt", [[0.0, 0.0, 4.0]], [0.0, 2.0, 8.0], [[0.0, INF, 2.0]]),
    Extreme("equal elements", "std", [[2.0, 2.0, 2.0]], 1.0, [[0.0, 0.0, 0.0]], 0.0),
    Extreme("one element, unbiased", "var", [[2.0]], 0.0, [[NAN]], NAN, {"ddof": 1}),
    Extreme(
        "more removed than there are", "var", [[2.0, 3.0]], 1.0, [[-INF, INF]], INF, {"ddof": 5}
    ),
    # a scalar is a row of one element
    *[
        Extreme(
            "a number",
            "sum",
            [np.full(shape, 3.0)],
            2.0,
            [np.full(shape, 2.0)],
            3.0,
            {"axis": axis},
        )
        for shape, axis in (((), 0), ((), -1), ((1,), 0), ((1,), -1))
    ],
    # zero slopes, to second order too
    Extreme(
        "a constant row",
        "std",
        [[[2.0, 2.0], [1.0, 3.0]]],
        [4.0, 5.0],
        [[[0.0, 0.0], [-2.5, 2.5]]],
        [0.0, 1.0],
        {"axis": -1},
        bend=([[1.0, 2.0], [3.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]]),
    ),
    # an infinity that is dropped or not selected has no effect
    Extreme(
        "infinity on the other side",
        "where",
        [np.array([True, False]), [1.0, INF], [INF, 2.0]],
        [INF, 3.0],
        [None, [INF, 0.0], [0.0, 3.0]],
        [1.0, 2.0],
    ),
    Extreme(
        "infinity under the mask",
        "masked_fill",
        [[1.0, INF], np.array([False, True]), 0.0],
        [3.0, INF],
        [[3.0, 0.0], None],
        [1.0, 0.0],
    ),
    _dropped_infinities(),
]
