"""Queries and keys of a transformer block, between projection and attention: see ``query_key.cu``.

Trade-offs: normalization and rotary positions of queries and keys take one launch, where each by itself takes four.
Backward computes the root mean square again. Head sizes are even and at most 128.
"""

from typing import NamedTuple

from ...backend import backend_of
from .launch import blocks_for, launch

_BLOCK = 256
_ROWS = _BLOCK // 32  # per block: a warp each
LARGEST_HEAD_DIM = 128


class QueryKey(NamedTuple):
    """The normalization and the rotary positions of queries and keys."""

    eps: float | None = None  # of the normalization; None for no normalization
    cosine: object = None  # (length, head_dim / 2), the tables of rotary positions; None for none
    sine: object = None

    def __bool__(self):
        return self.eps is not None or self.cosine is not None


def add_projection_biases(projections, biases):
    """Add three biases, (width,), in place to the projections, (3, rows, width)."""
    _, rows, width = projections.shape
    grid = (blocks_for(rows * width, _BLOCK), 3)
    numbers = rows * width, width
    template = (projections.dtype,)
    arrays = projections, *biases
    launch("query_key.cu", "add_projection_biases", template, grid, _BLOCK, *arrays, *numbers)


def query_key_forward(x, how):
    """Normalize and rotate queries and keys, (2, batch, length, heads, head_dim)."""
    out = backend_of(x).empty(x.shape, x.dtype)
    _launch("query_key_forward", x, how, x, how.cosine, how.sine, out)
    return out


def query_key_backward(g, x, how):
    """Replace the cotangent of the result by that of ``x``, in place."""
    _launch("query_key_backward", x, how, g, x, how.cosine, how.sine)


def _launch(name, x, how, *arrays):
    _, batch, length, heads, head_dim = x.shape
    rows = 2 * batch * length * heads
    numbers = rows, heads, length, head_dim // 2, how.eps is not None, float(how.eps or 0.0)
    launch("query_key.cu", name, (x.dtype,), -(-rows // _ROWS), _BLOCK, *arrays, *numbers)
