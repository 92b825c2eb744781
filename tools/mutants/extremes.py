"""Calls that finite differences cannot check: kinks, conventions, very large and very close numbers.

The expected output and gradients are worked out by hand, or in extended precision by an independent formula. They are
tests of their own (``tests/tools/test_extremes.py``) and part of the checks that kill mutants.
"""

import math
from dataclasses import dataclass, field

import numpy as np

INF, NAN = np.inf, np.nan


@dataclass
class Extreme:
    """A call, its cotangent, and the expected output (None: not compared) and gradient of each input."""

    what: str
    primitive: str
    inputs: list
    cotangent: object
    gradients: list
    output: object = None
    parameters: dict = field(default_factory=dict)
    dtypes: tuple = ("float64", "float32")
    tolerance: dict = field(default_factory=lambda: {"float64": 1e-12, "float32": 1e-5})
    relative: bool = False  # each element has to be right to the tolerance, however small it is
    bend: tuple = ()  # a direction, and the gradient of the first gradient's product with it

    def __str__(self):
        return f"{self.primitive}: {self.what}"


def _layer_norm(x, g, eps):
    """Layer norm and its gradient in extended precision, from the Jacobian written out."""
    x, g = x.astype(np.longdouble), g.astype(np.longdouble)
    n = x.shape[-1]
    centered = x - x.sum(-1, keepdims=True) / n
    sigma = np.sqrt((centered * centered).sum(-1, keepdims=True) / n + eps)
    z = centered / sigma
    identity = np.eye(n, dtype=np.longdouble)
    jacobian = (identity - 1 / np.longdouble(n) - z[..., None] * z[..., None, :] / n) / sigma[
        ..., None
    ]
    return z, np.einsum("...i,...ij->...j", g, jacobian)


def _softmax(x, g):
    """Softmax and its gradient in extended precision, whose range holds these numbers without a shift."""
    e = np.exp(x.astype(np.longdouble))
    p = e / e.sum(-1, keepdims=True)
    return p, p * (g - (p * g).sum(-1, keepdims=True))


def _attention(q, k, v, g, scale):
    """Attention and its gradients in extended precision."""
    q, k, v = (array.astype(np.longdouble) for array in (q, k, v))
    scores = scale * np.einsum("qd,kd->qk", q, k)
    p, ds = _softmax(scores, np.einsum("qd,kd->qk", g, v))
    return p @ v, [scale * ds @ k, scale * ds.T @ q, p.T @ g]


_AHEAD = np.array([0, 2])  # the likeliest class of each row


def _sure(distance, dtype):
    """What softmax and its relatives give where one score is ahead by ``distance``, by sums in which little cancels."""
    x = np.array([[distance, 0.0, 0.5], [-0.5, 0.25, distance]])
    g = np.array([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]])
    p, _ = _softmax(x, g)
    of_softmax = np.einsum("rj,ri,rji->rj", p, p, g[:, :, None] - g[:, None, :])
    alone = 2.0 * np.eye(3)[_AHEAD]
    shared = {"dtypes": (dtype,), "relative": True}
    return [
        Extreme("a sure choice", "softmax", [x], g, [of_softmax], **shared),
        Extreme("a sure choice", "log_softmax", [x], alone, [-2 * _less_one(p)], **shared),
        Extreme(
            "a sure choice",
            "cross_entropy",
            [x, _AHEAD],
            1.0,
            [_less_one(p), None],
            parameters={"reduction": "sum"},
            **shared,
        ),
    ]


def _less_one(p):
    """The probabilities ``p``, that of the likeliest class less 1."""
    result, row = p.copy(), np.arange(len(p))
    result[row, _AHEAD] = 0
    result[row, _AHEAD] = -result.sum(-1)
    return result


_SCORES = np.array([[900.0, -900.0, 899.0], [-2000.0, -2001.0, -2003.0], [1.0, 2.0, 3.0]])
_G = np.array([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0], [2.0, 1.0, -1.0]])
_P, _DP = _softmax(_SCORES, _G)
_CLOSE = (
    10000 + np.array([[0.0, 1.0, 3.0, -2.0], [4.0, -1.0, 0.5, 2.5]]) * 2.0**-9
)  # exact in float32
_G4 = np.array([[1.0, -2.0, 0.5, 3.0], [0.25, 3.0, -1.0, -2.0]])
_Z, _DZ = _layer_norm(_CLOSE, _G4, 1e-5)
_LONG_FAR = (
    (-1e7 + 100 * np.random.default_rng(0).random((1, 61))).astype("float32").astype("float64")
)
_LONG_G = np.cos(np.arange(61.0)).reshape(1, 61)
_LONG_Z, _LONG_DZ = _layer_norm(_LONG_FAR, _LONG_G, 1e-5)
_CENTERED = _CLOSE - 10000
_CENTERED = _CENTERED - _CENTERED.mean(-1, keepdims=True)
_LOG_LOSSES = -np.log(np.array([_P[2, 1], _P[0, 0]], np.float64))
_Q = np.array([[30.0, -40.0], [0.5, 1.0], [-60.0, 10.0]])
_K = np.array([[40.0, 10.0], [-20.0, 30.0], [1.0, -2.0], [39.0, 11.0]])
_V = np.array([[1.0, 2.0], [-1.0, 0.5], [3.0, -2.0], [0.0, 1.0]])
_GV = np.array([[1.0, -1.0], [2.0, 0.5], [-1.0, 3.0]])
_OUT, _DQKV = _attention(_Q, _K, _V, _GV, 0.7)

_WIDE = np.array([-20.0, -6.0, -5.5, -4.0, -3.0, -1.0, 0.0, 0.5, 2.0, 4.0, 5.5, 8.0, 20.0])
_WIDE_G = np.cos(np.arange(13.0))
_WIDE_PHI = np.array([(1 + math.erf(x / math.sqrt(2))) / 2 for x in _WIDE])
_OPPOSITE = _attention(
    np.array([[-50.0, 0.0], [1.0, 0.0]]),
    np.array([[30.0, 1.0], [31.0, 2.0]]),
    np.array([[1.0], [2.0]]),
    np.array([[1.0], [-1.0]]),
    1.0,
)

EXTREMES = [
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
    # very large scores
    Extreme("huge scores", "softmax", [_SCORES], _G, [_DP], _P),
    Extreme(
        "huge scores",
        "log_softmax",
        [_SCORES],
        _G,
        [_G - _P * _G.sum(-1, keepdims=True)],
        np.log(_P),
    ),
    Extreme(
        "huge scores",
        "logsumexp",
        [_SCORES],
        _G[:, 0],
        [_P * _G[:, :1]],
        np.log(np.exp(_SCORES.astype(np.longdouble)).sum(-1)),
        {"axis": -1},
    ),
    Extreme(
        "huge scores",
        "cross_entropy",
        [_SCORES[[2, 0]], np.array([1, 0])],
        2.0,
        [_P[[2, 0]] - np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]), None],
        _LOG_LOSSES.mean(),
    ),
    Extreme(
        "nothing counts",
        "cross_entropy",
        [_SCORES[:2], np.array([-100, -100])],
        2.0,
        [np.zeros((2, 3)), None],
        0.0,
    ),
    Extreme(
        "one class",
        "cross_entropy",
        [[[3.0], [4.0]], np.array([-100, 0])],
        2.0,
        [[[0.0], [0.0]], None],
        0.0,
    ),
    Extreme(
        "nothing counts in a sum",
        "cross_entropy",
        [_SCORES[:2], np.array([-100, -100])],
        2.0,
        [np.zeros((2, 3)), None],
        0.0,
        {"reduction": "sum"},
    ),
    Extreme(
        "certain logits",
        "binary_cross_entropy_with_logits",
        [[800.0, -800.0, 40.0, 0.0], [1.0, 0.0, 1.0, 1.0]],
        1.0,
        [[0.0, 0.0, -np.exp(-40.0), -0.5], [-800.0, 800.0, -40.0, 0.0]],
        np.exp(-40.0) + np.log(2),
        {"reduction": "sum"},
    ),
    Extreme(
        "nothing there",
        "binary_cross_entropy_with_logits",
        [np.zeros((0, 2)), np.zeros((0, 2))],
        1.0,
        [np.zeros((0, 2))] * 2,
        0.0,
    ),
    Extreme(
        "one element",
        "binary_cross_entropy_with_logits",
        [[0.0], [1.0]],
        1.0,
        [[-0.5], [0.0]],
        np.log(2),
    ),
    Extreme(
        "nothing there",
        "mse_loss",
        [np.zeros((0, 2)), np.zeros((0, 2))],
        1.0,
        [np.zeros((0, 2))] * 2,
    ),
    Extreme(
        "one element",
        "mse_loss",
        [[3.0], [1.0]],
        1.0,
        [[4.0], [-4.0]],
        4.0,
    ),
    # numbers that differ little
    Extreme(
        "rows near 10000",
        "layer_norm",
        [_CLOSE, None, None],
        _G4,
        [_DZ, None, None],
        _Z,
        {"axes": (-1,), "eps": 1e-5},
        tolerance={"float64": 1e-9, "float32": 2e-4},
    ),
    Extreme(
        "long rows far below 0",
        "layer_norm",
        [_LONG_FAR, None, None],
        _LONG_G,
        [_LONG_DZ, None, None],
        _LONG_Z,
        {"axes": (-1,), "eps": 1e-5},
        tolerance={"float64": 1e-9, "float32": 2e-5},
    ),
    Extreme(
        "rows near 10000",
        "var",
        [_CLOSE],
        [1.0, 2.0],
        [2 * np.array([[1.0], [2.0]]) * _CENTERED / 4],
        (_CENTERED**2).mean(-1),
        {"axis": -1},
        tolerance={"float64": 1e-12, "float32": 1e-6},
    ),
    Extreme(
        "elements near 1e8",
        "var",
        [1e8 + np.arange(4.0) * 8],
        1.0,
        [(np.arange(4.0) - 1.5) * 4],
        80.0,
        tolerance={"float64": 1e-12, "float32": 1e-6},
    ),
    Extreme(
        "a padding row gets no gradient",
        "embedding",
        [np.array([1, 1, 2, 4, 2]), np.arange(10.0).reshape(5, 2)],
        np.arange(1.0, 11.0).reshape(5, 2),
        [None, [[0.0, 0.0], [4.0, 6.0], [0.0, 0.0], [0.0, 0.0], [7.0, 8.0]]],
        parameters={"padding_idx": 2},
    ),
    Extreme(
        "from far below to far above 0",
        "gelu",
        [_WIDE],
        _WIDE_G,
        [_WIDE_G * (_WIDE_PHI + _WIDE * np.exp(-(_WIDE**2) / 2) / np.sqrt(2 * np.pi))],
        _WIDE * _WIDE_PHI,
        {"approximate": "none"},
        tolerance={"float64": 1e-12, "float32": 1e-7},
    ),
    # attention that neither exp nor a product of float32 could hold without care
    Extreme(
        "huge scores",
        "attention",
        [_Q, _K, _V, None],
        _GV,
        [*_DQKV, None],
        _OUT,
        {"scale": 0.7},
        tolerance={"float64": 1e-9, "float32": 1e-3},
    ),
    Extreme(
        "huge scores",
        "window_attention",
        [_Q, _K[:3], _V[:3], None],
        _GV,
        [*_attention(_Q, _K[:3], _V[:3], _GV, 0.7)[1], None],
        _attention(_Q, _K[:3], _V[:3], _GV, 0.7)[0],
        {"window": 6, "global_tokens": 0, "causal": False, "scale": 0.7},
        tolerance={"float64": 1e-9, "float32": 1e-3},
    ),
    Extreme(
        "scores that exp would turn into 0, and some that it would not",
        "attention",
        [[[-50.0, 0.0], [1.0, 0.0]], [[30.0, 1.0], [31.0, 2.0]], [[1.0], [2.0]], None],
        [[1.0], [-1.0]],
        [*_OPPOSITE[1], None],
        _OPPOSITE[0],
        {"scale": 1.0},
    ),
    Extreme(
        "scores whose exp float32 cannot hold",
        "attention",
        [[[10.0]], [[10.0], [-1.0]], [[1.0], [2.0]], None],
        [[1.0]],
        [[[0.0]], [[0.0], [0.0]], [[1.0], [0.0]], None],
        [[1.0]],
        {"scale": 1.0},
    ),
    *[
        Extreme(
            "a score beyond all numbers takes everything",
            "attention",
            [[[huge], [1.0], [2.0]], [[1.0], [huge], [1.0]], [[1.0], [3.0], [5.0]], None],
            [[1.0], [1.0], [2.0]],
            [np.zeros((3, 1)), np.zeros((3, 1)), [[0.0], [4.0], [0.0]], None],
            [[3.0], [3.0], [3.0]],
            {"scale": 1.0},
            dtypes=(dtype,),
        )
        for huge, dtype in ((1e200, "float64"), (1e30, "float32"))
    ],
    Extreme(
        "queries before all keys",
        "attention",
        [np.ones((3, 2)), np.ones((1, 2)), [[2.0, 4.0]], None],
        np.ones((3, 2)),
        [np.zeros((3, 2)), np.zeros((1, 2)), [[1.0, 1.0]], None],
        [[0.0, 0.0], [0.0, 0.0], [2.0, 4.0]],
        {"causal": True},
    ),
    Extreme(
        "a query without keys",
        "attention",
        [
            np.ones((2, 2)),
            np.ones((2, 2)),
            [[2.0, 4.0], [6.0, 8.0]],
            np.array([[False, False], [True, True]]),
        ],
        np.ones((2, 2)),
        [
            np.zeros((2, 2)),
            np.sqrt(2.0) * np.array([[-1.0, -1.0], [1.0, 1.0]]),
            np.full((2, 2), 0.5),
            None,
        ],
        [[0.0, 0.0], [4.0, 6.0]],
    ),
    Extreme(
        "a query without keys",
        "window_attention",
        [np.ones((2, 2)), np.ones((2, 2)), [[2.0, 4.0], [6.0, 8.0]], np.array([[False, True]])],
        np.ones((2, 2)),
        [np.zeros((2, 2)), np.zeros((2, 2)), [[0.0, 0.0], [1.0, 1.0]], None],
        [[0.0, 0.0], [6.0, 8.0]],
        {"window": 2, "global_tokens": 0, "causal": True, "scale": 1.0},
    ),
    # a probability, or a slope, that is rounded to 1
    *_sure(8.0, "float32"),
    *_sure(20.0, "float32"),
    *_sure(20.0, "float64"),
    *_sure(40.0, "float64"),
    # squares and powers that overflow
    *[
        extreme
        for huge, dtype in ((1e20, "float32"), (1e200, "float64"))
        for extreme in (
            Extreme(
                "huge numbers",
                "gelu",
                [[huge, -huge, 0.0]],
                [1.0, 2.0, 4.0],
                [[1.0, 0.0, 2.0]],
                [huge, 0.0, 0.0],
                {"approximate": "tanh"},
                dtypes=(dtype,),
            ),
            Extreme(
                "huge numbers",
                "rms_norm",
                [[[3 * huge, -4 * huge]], None],
                [[1.0, 0.5]],
                [np.zeros((1, 2)), None],
                np.array([[3.0, -4.0]]) / np.sqrt(12.5),
                {"axes": (-1,), "eps": 1e-5},
                dtypes=(dtype,),
            ),
            Extreme(
                "huge numbers",
                "layer_norm",
                [[[huge, -huge]], None, None],
                [[1.0, 0.5]],
                [np.zeros((1, 2)), None, None],
                [[1.0, -1.0]],
                {"axes": (-1,), "eps": 1e-5},
                dtypes=(dtype,),
            ),
        )
    ],
    Extreme(
        "a constant row",
        "layer_norm",
        [np.full((1, 1234), 0.003), None, None],
        np.resize([1.0, -1.0], (1, 1234)),
        [np.resize([1.0, -1.0], (1, 1234)) / np.sqrt(1e-5), None, None],
        np.zeros((1, 1234)),
        {"axes": (-1,), "eps": 1e-5},
        relative=True,
    ),
    # a number counts as a row of one
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
    # flat where it has no slope, in the second order too
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
    # an infinity that is dropped, or not selected, is gone
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
]


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


EXTREMES.append(_dropped_infinities())
