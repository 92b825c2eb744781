"""Numbers that are very large, or that differ little: scores, rows and probabilities rounded to 1."""

import math

import numpy as np

from .extreme import Extreme, exact_attention, exact_layer_norm, exact_softmax

_AHEAD = np.array([0, 2])  # the likeliest class of each row


def _sure(distance, dtype):
    """Exact results of softmax and related functions if one score exceeds the others by ``distance``."""
    x = np.array([[distance, 0.0, 0.5], [-0.5, 0.25, distance]])
    g = np.array([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]])
    p, _ = exact_softmax(x, g)
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
    """The probabilities ``p``, minus 1 for the likeliest class."""
    result, row = p.copy(), np.arange(len(p))
    result[row, _AHEAD] = 0
    result[row, _AHEAD] = -result.sum(-1)
    return result


_SCORES = np.array([[900.0, -900.0, 899.0], [-2000.0, -2001.0, -2003.0], [1.0, 2.0, 3.0]])
_G = np.array([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0], [2.0, 1.0, -1.0]])
_P, _DP = exact_softmax(_SCORES, _G)
# Exact in float32.
_CLOSE = 10000 + np.array([[0.0, 1.0, 3.0, -2.0], [4.0, -1.0, 0.5, 2.5]]) * 2.0**-9
_G4 = np.array([[1.0, -2.0, 0.5, 3.0], [0.25, 3.0, -1.0, -2.0]])
_Z, _DZ = exact_layer_norm(_CLOSE, _G4, 1e-5)
_LONG_FAR = (
    (-1e7 + 100 * np.random.default_rng(0).random((1, 61))).astype("float32").astype("float64")
)
_LONG_G = np.cos(np.arange(61.0)).reshape(1, 61)
_LONG_Z, _LONG_DZ = exact_layer_norm(_LONG_FAR, _LONG_G, 1e-5)
_CENTERED = _CLOSE - 10000
_CENTERED = _CENTERED - _CENTERED.mean(-1, keepdims=True)
_LOG_LOSSES = -np.log(np.array([_P[2, 1], _P[0, 0]], np.float64))
_Q = np.array([[30.0, -40.0], [0.5, 1.0], [-60.0, 10.0]])
_K = np.array([[40.0, 10.0], [-20.0, 30.0], [1.0, -2.0], [39.0, 11.0]])
_V = np.array([[1.0, 2.0], [-1.0, 0.5], [3.0, -2.0], [0.0, 1.0]])
_GV = np.array([[1.0, -1.0], [2.0, 0.5], [-1.0, 3.0]])
_OUT, _DQKV = exact_attention(_Q, _K, _V, _GV, 0.7)

_WIDE = np.array([-20.0, -6.0, -5.5, -4.0, -3.0, -1.0, 0.0, 0.5, 2.0, 4.0, 5.5, 8.0, 20.0])
_WIDE_G = np.cos(np.arange(13.0))
_WIDE_PHI = np.array([(1 + math.erf(x / math.sqrt(2))) / 2 for x in _WIDE])
_OPPOSITE = exact_attention(
    np.array([[-50.0, 0.0], [1.0, 0.0]]),
    np.array([[30.0, 1.0], [31.0, 2.0]]),
    np.array([[1.0], [2.0]]),
    np.array([[1.0], [-1.0]]),
    1.0,
)

LARGE_NUMBERS = [
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
    # attention whose scores or their exponentials overflow float32
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
        [*exact_attention(_Q, _K[:3], _V[:3], _GV, 0.7)[1], None],
        exact_attention(_Q, _K[:3], _V[:3], _GV, 0.7)[0],
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
]
