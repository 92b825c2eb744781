"""Dropout: one launch forward, one backward.

Trade-offs: forward and backward each compute the mask from the key; it is never stored.
"""

import numpy as np

from ...autograd import register_kernel
from .elementwise import LARGEST, map_elements
from .rows import contiguous, is_floating


def forward(x, *, p, key):
    if p >= 1 or not is_floating(x) or not 0 < x.size <= LARGEST:
        return NotImplemented
    return _masked(x, p, key), (p, key)


def backward(g, residuals):
    return _masked(g, *residuals)


def _masked(x, p, key):
    return map_elements("dropout.cu", "dropout", (), [contiguous(x)], *mask_numbers(p, key))


def mask_numbers(p, key):
    """The arguments from which kernels compute a mask: the halves of the key, threshold, and factor 1 / (1 - p)."""
    key = key or 0
    low, high = np.uint32(key & 0xFFFFFFFF), np.uint32(key >> 32 & 0xFFFFFFFF)
    return low, high, np.uint32(round(p * 2**32)), 1 / (1 - p)


register_kernel("dropout", "cuda", forward, backward)
