"""Clipping of gradients by their norm: two launches for each array, and one for the norm.

Trade-offs: norm and factor stay on the device, so that the host does not wait; reading the norm synchronizes.
"""

import numpy as np

from ...backend import backend_of
from ..updates import register_update
from .launch import blocks_for, launch

_BLOCK = 256
_MOST_SUMS = 1024  # partial sums of an array, one per block


def clip(arrays, max_norm):
    """Scale contiguous ``arrays`` to a common norm of at most ``max_norm``; returns the norm before, an array ()."""
    backend = backend_of(arrays[0])
    blocks = [min(blocks_for(array.size, _BLOCK), _MOST_SUMS) for array in arrays]
    partial = backend.empty((sum(blocks),), np.float64)
    ends = np.cumsum(blocks).tolist()
    for array, count, end in zip(arrays, blocks, ends):
        part = partial[end - count : end]
        template = (array.dtype,)
        launch("clipping.cu", "sum_of_squares", template, count, _BLOCK, array, part, array.size)
    result = backend.empty((2,), np.float64)
    numbers = partial.size, float(max_norm)
    launch("clipping.cu", "clip_factor", (np.float64,), 1, _BLOCK, partial, result, *numbers)
    for array in arrays:
        grid = blocks_for(array.size, _BLOCK)
        launch("clipping.cu", "scale_down", (array.dtype,), grid, _BLOCK, array, result, array.size)
    return result[0]


register_update("clip", "cuda", clip)
