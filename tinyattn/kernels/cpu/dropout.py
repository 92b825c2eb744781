"""Dropout in blocks, with the factors 0 and 1 / (1 - p) computed from the key.

Trade-offs: the mask is saved, one byte per element, which is faster than recomputing its random bits.
"""

import math

import numpy as np

from ...autograd import register_kernel
from ...backend.counter import keep_mask
from ...backend.pool import empty
from .blocks import is_floating

_BLOCK_ELEMENTS = 1 << 17


def forward(x, *, p, key):
    if p >= 1 or x.size == 0 or not is_floating(x) or not x.flags.c_contiguous:
        return NotImplemented
    kept = empty(x.shape, np.bool_)
    flat = kept.reshape(-1)
    counter = np.arange(min(_BLOCK_ELEMENTS, x.size), dtype=np.uint32)
    for start in range(0, x.size, _BLOCK_ELEMENTS):
        part = flat[start : start + _BLOCK_ELEMENTS]
        part[...] = keep_mask(counter[: part.size] + np.uint32(start), key, p)
    return _apply(x, kept, p), (kept, p)


def _apply(x, kept, p):
    rows = x.reshape(-1)
    if not math.isfinite(np.dot(rows, rows)):  # a dropped infinity becomes 0, not 0 times infinity
        return np.where(kept, x * (1 / (1 - p)), 0)
    out = empty(x.shape, x.dtype)
    np.multiply(x, kept, out=out)
    out *= 1 / (1 - p)
    return out


def backward(g, residuals):
    return _apply(g, *residuals)


register_kernel("dropout", "cpu", forward, backward)
