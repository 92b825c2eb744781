"""The table of cases: the inputs and parameters at which each primitive is checked.

Shapes are small and include edge cases: axes of length 1 and 0, broadcasting, transposed memory, no axes. Values are
drawn away from kinks, where there is no derivative to check; the tests of each operation cover those. A primitive
without a case in this table fails the survey.
"""

from dataclasses import dataclass, field

import numpy as np

from ..kernels.portable.ring_attention import SelfCommunicator


@dataclass(frozen=True)
class Drawn:
    """Random numbers of a shape, from the distribution ``kind``."""

    shape: tuple
    kind: str = "normal"
    high: int = 0
    axes: tuple | None = None

    def __call__(self, random):
        array = self._draw(random)
        return array if self.axes is None else array.transpose(self.axes)

    def _draw(self, random):
        if self.kind == "normal":
            return random.standard_normal(self.shape)
        if self.kind == "positive":
            return random.uniform(0.5, 2.0, self.shape)
        if self.kind == "apart":
            # No two equal, and none near 0: away from the kinks of max, clip and relu.
            numbers = (np.arange(np.prod(self.shape, dtype=int)) + 0.5) * 0.37
            signs = np.where(np.arange(numbers.size) % 2, 1.0, -1.0)
            return random.permutation(numbers * signs).reshape(self.shape)
        if self.kind == "integers":
            return random.integers(0, self.high, self.shape)
        assert self.kind == "boolean", self.kind
        return random.random(self.shape) < 0.6

    def __repr__(self):
        return f"{self.kind}{list(self.shape)}" + ("" if self.axes is None else " transposed")


def normal(*shape):
    return Drawn(shape)


def positive(*shape):
    return Drawn(shape, "positive")


def apart(*shape):
    return Drawn(shape, "apart")


def integers(high, *shape):
    return Drawn(shape, "integers", high)


def boolean(*shape):
    return Drawn(shape, "boolean")


def transposed(*shape):
    """An array with the axes of ``shape`` reversed, not contiguous in memory."""
    return Drawn(shape, axes=tuple(range(len(shape)))[::-1])


@dataclass(frozen=True)
class Case:
    """One call of a primitive."""

    inputs: tuple
    parameters: dict = field(default_factory=dict)
    order: int = 2  # the highest order that the operation supports
    mode: str = "full"

    def __str__(self):
        words = [repr(value) for value in self.inputs]
        words += [f"{name}={value!r}" for name, value in self.parameters.items()]
        return ", ".join(words)

    def draw(self, seed=0):
        """The inputs of the call: random host arrays, and the fixed values unchanged."""
        random = np.random.default_rng(seed)
        return [value(random) if isinstance(value, Drawn) else value for value in self.inputs]


def case(*inputs, **parameters):
    return Case(inputs, parameters)


def _elementwise(draw):
    return [case(draw(3, 4)), case(draw()), case(draw(0, 3)), case(draw(1))]


def _broadcasting(draw, other=None):
    other = other or draw
    return [
        case(draw(3, 4), other(3, 4)),
        case(draw(3, 1), other(1, 4)),
        case(draw(4), other(2, 3, 4)),
        case(draw(2, 3), other()),
        case(draw(2, 3), 1.5),
        case(1.5, other(2, 3)),
        case(draw(0, 3), other(3)),
    ]


def _reduction(draw):
    return [
        case(draw(3, 4)),
        case(draw(3, 4), axis=0),
        case(draw(2, 3, 4), axis=(0, 2)),
        case(draw(2, 3, 4), axis=-1, keepdims=True),
        case(draw(1, 1), axis=1),
        case(draw()),
    ]


def _along_axis(draw):
    return [
        case(draw(3, 5)),
        case(draw(2, 3, 4), axis=1),
        case(draw(5), axis=0),
        case(draw(3, 1), axis=-1),
        case(draw(0, 3)),
        case(draw(7, 2)),
    ]


_TARGETS = np.array([[1, 4, -100], [0, 2, 3]])
_QKV = (normal(2, 5, 3), normal(2, 5, 3), normal(2, 5, 4))
_SQUARE = (normal(2, 5, 3), normal(2, 5, 3), normal(2, 5, 3))
_LONGER = (normal(7, 2), normal(7, 2), normal(7, 2))
# (batch, heads, length, head_dim) as projections give it: (batch, length, heads, head_dim) in memory.
_HEADS = tuple(Drawn((2, 4, 3, 2), axes=(0, 2, 1, 3)) for _ in range(3))
_ATTENTION = {"causal": False, "scale": 0.6}

CASES = {
    # arithmetic
    "add": [
        *_broadcasting(normal),
        Case((normal(64, 128), normal(64, 128)), mode="directional"),  # large enough for its kernel
    ],
    "sub": _broadcasting(normal),
    "mul": _broadcasting(normal) + [case(transposed(3, 4), normal(4, 3))],
    "div": _broadcasting(normal, positive),
    "power": [
        *_broadcasting(positive),
        case(normal(2, 3), 2),
        case(normal(2, 3), 3),
        case(normal(2, 3), 0),
        case(positive(2, 3), -0.5),
    ],
    "neg": _elementwise(normal),
    "absolute": _elementwise(apart),
    "square": _elementwise(normal),
    "astype": [case(normal(3, 4), dtype="float64")],
    "to_device": [case(normal(3, 4), device="cpu")],
    # exponential and trigonometric
    **{
        name: _elementwise(normal)
        for name in "exp expm1 sin cos tanh sigmoid silu erf erfc".split()
    },
    **{name: _elementwise(positive) for name in "log log1p sqrt rsqrt".split()},
    # selection and activations
    "relu": _elementwise(apart),
    "relu_squared": _elementwise(apart),
    "gelu": [
        *[case(*one.inputs, approximate="none") for one in _elementwise(normal)],
        *[case(*one.inputs, approximate="tanh") for one in _elementwise(normal)],
        case(transposed(3, 4), approximate="tanh"),
    ],
    "elu_plus_one": _elementwise(apart),
    "where": [
        case(boolean(3, 4), normal(3, 4), normal(3, 4)),
        case(boolean(3, 1), normal(4), normal(1, 4)),
        case(boolean(3), normal(3), 0.5),
        case(boolean(3), -1, normal(2, 3)),
    ],
    "masked_fill": [
        case(normal(3, 4), boolean(3, 4), 0.5),
        case(normal(2, 3, 4), boolean(4), normal()),
        case(normal(3, 4), boolean(3, 4), normal(4)),
    ],
    **{
        name: [case(apart(3, 4), normal(1, 4)), case(apart(5), 0.1), case(normal(3), normal(2, 3))]
        for name in ("maximum", "minimum")
    },
    "clip": [
        case(apart(3, 4), -1.0, 1.0),
        case(apart(3, 4), None, 1.0),
        case(apart(3, 4), -1.0, None),
        case(apart(3, 4), normal(4), 2.5),
    ],
    # reductions
    "sum": [*_reduction(normal), case(normal(0, 3)), case(normal(0, 3), axis=0)],
    "mean": _reduction(normal),
    "prod": [*_reduction(normal), case(np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 1.5]]), axis=1)],
    "max": _reduction(apart),
    "min": _reduction(apart),
    "var": [
        *_reduction(normal)[:4],
        case(normal(3, 4), axis=1, ddof=1),
        case(normal(3, 2), axis=1, ddof=1),
    ],
    "std": [*_reduction(normal)[:4], case(normal(3, 4), axis=1, ddof=1)],
    "logsumexp": _reduction(normal),
    "cumsum": [
        case(normal(2, 3, 4), axis=1),
        case(normal(5), axis=0),
        case(normal(2, 3), axis=-1),
        case(normal(2, 3)),
    ],
    # softmax and losses
    "softmax": _along_axis(normal) + [case(transposed(3, 4))],
    "log_softmax": _along_axis(normal) + [case(transposed(3, 4))],
    "cross_entropy": [
        case(normal(4, 5), integers(5, 4)),
        case(normal(2, 3, 5), _TARGETS),
        case(normal(2, 3, 5), _TARGETS, reduction="sum"),
        case(normal(2, 3, 5), _TARGETS, reduction="none"),
        case(normal(4, 5), integers(5, 4), reduction="none"),
        case(normal(2, 3, 5), _TARGETS, label_smoothing=0.1),
        case(normal(2, 3, 5), _TARGETS, label_smoothing=0.1, reduction="sum"),
        case(normal(2, 3, 5), integers(5, 2, 3), label_smoothing=0.2, reduction="none"),
        case(normal(5), np.array(3)),
    ],
    "nll_loss": [
        case(normal(4, 5), integers(5, 4)),
        case(normal(2, 3, 5), _TARGETS),
        case(normal(2, 3, 5), _TARGETS, reduction="sum"),
        case(normal(2, 3, 5), _TARGETS, reduction="none"),
    ],
    "mse_loss": [
        case(normal(3, 4), normal(3, 4)),
        case(normal(3, 4), normal(3, 4), reduction="sum"),
        case(normal(3, 4), normal(3, 4), reduction="none"),
    ],
    "binary_cross_entropy_with_logits": [
        case(normal(3, 4), boolean(3, 4)),
        case(normal(3, 4), positive(3, 4), reduction="sum"),
        case(normal(3, 4), normal(3, 4), reduction="none"),
        case(normal(), integers(2)),
    ],
    # normalization
    "layer_norm": [
        case(normal(3, 5), positive(5), normal(5), axes=(-1,), eps=1e-5),
        case(normal(2, 3, 4), None, None, axes=(-1,), eps=1e-5),
        case(normal(2, 3, 4), positive(3, 4), None, axes=(-2, -1), eps=0.1),
        case(normal(2, 3), None, normal(3), axes=(-1,), eps=1e-5),
        case(transposed(5, 3), positive(5), normal(5), axes=(-1,), eps=1e-5),
    ],
    "rms_norm": [
        case(normal(3, 5), positive(5), axes=(-1,), eps=1e-5),
        case(normal(2, 3, 4), None, axes=(-1,), eps=1e-5),
        case(normal(2, 3, 4), positive(3, 4), axes=(-2, -1), eps=0.1),
        case(_HEADS[0], positive(2), axes=(-1,), eps=1e-5),
        case(Drawn((4, 3, 2), axes=(1, 0, 2)), None, axes=(-1,), eps=1e-5),
        case(Drawn((4, 3, 2), axes=(1, 0, 2)), None, axes=(-2, -1), eps=1e-5),
    ],
    # matrices
    "matmul": [
        case(normal(3, 4), normal(4, 2)),
        case(normal(2, 3, 4), normal(2, 4, 5)),
        case(normal(2, 1, 3, 4), normal(3, 4, 2)),
        case(normal(4), normal(4, 2)),
        case(normal(3, 4), normal(4)),
        case(normal(4), normal(4)),
        case(normal(4), normal(2, 4, 3)),
        case(normal(2, 3, 4), normal(4)),
        case(transposed(4, 3), transposed(2, 4)),
        case(normal(3, 0), normal(0, 2)),
    ],
    "contract": [
        case(normal(2, 3), normal(3, 4), subscripts="ij,jk->ik"),
        case(normal(2, 5, 3), normal(2, 4, 3), subscripts="bqd,bkd->bqk"),
        case(normal(3, 3), normal(3), subscripts="ii,i->i"),
        case(normal(2, 3), subscripts="ij->"),
        case(normal(3, 3), subscripts="ii->i"),
        case(normal(2, 3), normal(1, 3), subscripts="ij,ij->ij"),
        case(normal(2), normal(3), normal(2, 3), subscripts="i,j,ij->j"),
    ],
    "linear": [
        case(normal(3, 4), normal(4, 2), normal(2)),
        case(normal(2, 3, 4), normal(4, 2), None),
        case(normal(4), normal(4, 3), normal(3)),
        case(transposed(4, 3), transposed(2, 4), normal(2)),
        case(normal(0, 4), normal(4, 2), normal(2)),
    ],
    # shapes
    "reshape": [case(normal(3, 4), shape=(2, 6)), case(transposed(3, 4), shape=(-1,))],
    "broadcast_to": [case(normal(3, 1), shape=(2, 3, 4)), case(normal(), shape=(2,))],
    "transpose": [
        case(normal(2, 3, 4)),
        case(normal(2, 3, 4), axes=(1, 2, 0)),
        case(normal(2, 3, 4), axes=(2, 0, 1)),
    ],
    "flip": [case(normal(2, 3)), case(normal(2, 3), axis=1), case(normal(2, 3, 4), axis=(0, -1))],
    "tril": [case(normal(3, 4)), case(normal(2, 3, 3), k=-1), case(normal(3, 4), k=1)],
    "triu": [case(normal(3, 4)), case(normal(2, 3, 3), k=-1), case(normal(3, 4), k=1)],
    "concatenate_arrays": [
        case(normal(2, 3), normal(1, 3), normal(0, 3), axis=0),
        case(normal(2, 3), normal(2, 1), axis=1),
    ],
    # indexing
    "view_at": [
        case(normal(3, 4), index=(slice(None, None, 2), -1)),
        case(normal(2, 3, 4), index=(Ellipsis, None, slice(1, 3))),
    ],
    "gather": [
        case(normal(3, 4), index=(np.array([0, 0, 2]),)),
        case(normal(3, 4), index=(slice(None), np.array([[1, 1], [3, 0]]))),
        case(normal(3), index=(np.array([True, False, True]),)),
    ],
    "scatter": [
        case(normal(3, 4), index=(np.array([0, 0, 2]),), shape=(3, 4)),
        case(normal(2), index=(slice(None, None, 2), -1), shape=(3, 4)),
    ],
    "embedding": [
        case(integers(5, 2, 3), normal(5, 4)),
        case(np.array([1, 1, 0, 1]), normal(3, 2)),  # one row twice, one row never
    ],
    "sum_by_id": [
        case(normal(2, 3, 4), integers(5, 2, 3), rows=5),
        case(normal(4, 2), np.array([1, 1, 0, 2]), rows=3, padding_idx=2),
        case(normal(4, 2, 3), np.array([1, 1, 0, 2]), rows=3, padding_idx=-1),
    ],
    "split_heads": [case(normal(2, 3, 4), heads=2), case(normal(3, 6), heads=3)],
    "join_heads": [case(normal(2, 2, 3, 4)), case(_HEADS[0])],
    "rotary": [
        case(normal(2, 5, 4), normal(5, 2), normal(5, 2)),
        case(normal(1, 3, 2), normal(2, 3, 1), normal(3, 1)),
        case(_HEADS[0], normal(4, 1), normal(4, 1)),
        case(Drawn((3, 2, 4), axes=(1, 0, 2)), normal(3, 2), normal(3, 2)),
    ],
    "dropout": [case(normal(4, 5), p=0.4, key=7), case(normal(3), p=0.0, key=7)],
    # attention
    "attention": [
        case(*_QKV, None, **_ATTENTION),
        case(*_QKV, None, causal=True),
        case(normal(2, 2, 3), normal(2, 5, 3), normal(2, 5, 4), None, causal=True, scale=0.6),
        case(normal(2, 5, 3), normal(2, 2, 3), normal(2, 2, 4), None, causal=True, scale=0.6),
        case(*_HEADS, boolean(2, 1, 4, 4), causal=True, scale=0.6),
        case(*_HEADS, boolean(4, 1), **_ATTENTION),
        case(*_HEADS, boolean(1, 4), **_ATTENTION),
        case(normal(2, 1, 3, 4), normal(2, 5, 4), normal(2, 1, 5, 3), None, **_ATTENTION),
        case(*_QKV, None, causal=True, scale=0.6, dropout_p=0.3, dropout_key=11),
        case(*_HEADS, None, causal=True, scale=0.6, dropout_p=0.3, dropout_key=12),
        case(normal(3, 2), normal(3, 2), normal(2, 1, 3, 2), None, dropout_p=0.4, dropout_key=13),
        case(
            normal(2, 9, 2), normal(2, 9, 2), normal(2, 9, 1), None, dropout_p=0.4, dropout_key=14
        ),
        case(normal(7, 2), normal(2, 2), normal(2, 3), None, causal=True, scale=0.6),
        case(normal(1, 3, 2), normal(3, 2), normal(3, 2), None, **_ATTENTION),
        case(*[Drawn((3, 2, 2), axes=(1, 0, 2))] * 3, None, **_ATTENTION),
    ],
    "causal_product": [
        case(*_QKV),
        case(*_QKV, chunk=2),
    ],
    "window_attention": [
        case(*_SQUARE, None, window=2, global_tokens=0, causal=True, scale=0.6),
        case(*_SQUARE, None, window=1, global_tokens=1, causal=False, scale=0.6),
        case(*_SQUARE, boolean(2, 1, 5), window=2, global_tokens=1, causal=False, scale=0.6),
        case(*_SQUARE, None, window=3, global_tokens=0, causal=True, scale=0.6),
        case(*_LONGER, None, window=3, global_tokens=0, causal=True, scale=0.6),
        case(*_LONGER, None, window=4, global_tokens=2, causal=True, scale=0.6),
        case(*_LONGER, boolean(1, 7), window=4, global_tokens=1, causal=False, scale=0.6),
        case(*[normal(12, 2)] * 3, None, window=5, global_tokens=0, causal=False, scale=0.6),
    ],
    "ring_attention": [
        *[
            case(normal(2, 4, 3), normal(2, 4, 3), normal(2, 4, 3), ranks=2, layout=layout, **one)
            for layout in ("contiguous", "zigzag")
            for one in ({"causal": False, "scale": 0.6}, {"causal": True, "scale": 0.6})
        ],
        case(*_LONGER[:2], normal(7, 3), ranks=3, layout="zigzag", causal=True, scale=0.6),
    ],
    "distributed_ring_attention": [
        Case(
            _SQUARE,
            {
                "communicator": SelfCommunicator(),
                "positions": [np.arange(5)],
                "causal": True,
                "scale": 0.6,
            },
            order=1,
        ),
    ],
}
