"""Rotary position embedding, as a small matrix product and elementwise operations on long rows.

Trade-offs: with the halves of a head swapped and one negated, x~ = (-x2, x1), the rule is y = x c + x~ s. The halves
are too short for efficient NumPy loops. Swapping is an exact product with a matrix of 0, 1 and -1, and the tables are
repeated for every head, so that all other operations run over long rows. A NaN or infinity spreads to its whole head.
The rule computes the cotangents of the tables.
"""

import functools

import numpy as np

from ...autograd import register_kernel
from ...backend.pool import empty
from .blocks import heads_swapped, is_floating


def forward(x, cosine, sine):
    if x.ndim < 2 or x.size == 0 or x.shape[-1] % 2 or not is_floating(x, cosine, sine):
        return NotImplemented
    if cosine.shape != (x.shape[-2], x.shape[-1] // 2) or sine.shape != cosine.shape:
        return NotImplemented
    return _rotated(x, cosine, sine), (cosine, sine)


def backward(g, residuals):
    cosine, sine = residuals
    return _rotated(g, cosine, -sine), None, None


def _rotated(x, cosine, sine):
    if heads_swapped(x):
        out = _rotated_contiguous(x.swapaxes(-3, -2), cosine, sine, heads=x.shape[-3])
        return out.swapaxes(-3, -2)
    return _rotated_contiguous(np.ascontiguousarray(x), cosine, sine, heads=1)


def _rotated_contiguous(x, cosine, sine, heads):
    """``x`` is contiguous: (..., length, heads, head_dim), or (..., length, head_dim) for ``heads=1``."""
    length, head_dim = cosine.shape[0], x.shape[-1]
    row = length * heads * head_dim
    cosine, sine = (
        np.repeat(np.concatenate([table, table], axis=1), heads, axis=0).reshape(row)
        for table in (cosine, sine)
    )
    out, swapped = empty((x.size // row, row), x.dtype), empty((x.size // row, row), x.dtype)
    swap = _swap_matrix(head_dim, x.dtype)
    np.matmul(x.reshape(-1, head_dim), swap, out=swapped.reshape(-1, head_dim))
    swapped *= sine
    np.multiply(x.reshape(-1, row), cosine, out=out)
    out += swapped
    return out.reshape(x.shape)


@functools.lru_cache(maxsize=16)
def _swap_matrix(head_dim, dtype):
    """The matrix E with (x1, x2) E = (-x2, x1)."""
    half = head_dim // 2
    matrix = np.zeros((head_dim, head_dim), dtype)
    matrix[:half, half:] = np.eye(half)
    matrix[half:, :half] = -np.eye(half)
    return matrix


register_kernel("rotary", "cpu", forward, backward, left_to_rule=("cosine", "sine"))
