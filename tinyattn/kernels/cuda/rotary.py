"""Rotary positions: one launch forward, one backward.

Trade-offs: heads that are views of a projection are rotated without a copy. The rule computes the cotangents of the
tables, which training does not need.
"""

from ...autograd import register_kernel
from ...backend import backend_of
from .elementwise import LARGEST
from .launch import blocks_for, launch
from .rows import as_rows, contiguous, is_floating

_BLOCK = 256


def forward(x, cosine, sine):
    if x.ndim < 2 or x.shape[-1] % 2 or not is_floating(x, cosine, sine):
        return NotImplemented
    if not 0 < x.size <= LARGEST or sine.shape != cosine.shape:
        return NotImplemented
    if cosine.shape != (x.shape[-2], x.shape[-1] // 2):
        return NotImplemented
    cosine, sine = contiguous(cosine), contiguous(sine)
    return _rotated(x, cosine, sine, 1), (cosine, sine)


def backward(g, residuals):
    return _rotated(g, *residuals, -1), None, None


def _rotated(x, cosine, sine, direction):
    rows, restore = as_rows(x)
    heads = x.shape[-3] if restore.swapped else 1
    length, half = cosine.shape
    out = backend_of(x).empty(rows.shape, x.dtype)
    pairs = x.size // 2
    numbers = half, heads, length, direction
    grid = blocks_for(pairs, _BLOCK)
    launch(
        "rotary.cu", "rotary", (x.dtype,), grid, _BLOCK, rows, out, pairs, cosine, sine, *numbers
    )
    return restore(out)


register_kernel("rotary", "cuda", forward, backward, left_to_rule=("cosine", "sine"))
