"""Muon over flat storage: all matrices of one shape together, by four kernels and batched products.

Trade-offs: the matrices are copied into one buffer, so that one batched product computes all of them.
"""

import numpy as np

from ...backend import backend_of
from ..updates import register_update
from .launch import blocks_for, launch

_BLOCK = 256
_MOST_BLOCKS = 64  # for a matrix


def directions(flat, places, shape, steps, *, momentum, nesterov):
    """Update the momentum and return the directions, each divided by its norm: (matrices, rows, columns).

    Args:
        flat: gradients and momentum, one-dimensional arrays.
        places: the start position of each matrix in them, int64.
        shape: rows and columns.
        steps: strides in elements, from a row to the next and from a column to the next.
    """
    gradients, held = flat
    count, size = places.size, shape[0] * shape[1]
    backend = backend_of(gradients)
    stack = backend.empty((count, *shape), gradients.dtype)
    blocks = min(blocks_for(size, _BLOCK), _MOST_BLOCKS)
    partial = backend.empty((count, blocks), np.float64)
    template, grid = (gradients.dtype,), (blocks, count)
    arrays = gradients, held, places, stack, partial
    numbers = *shape, *steps, float(momentum), nesterov
    launch("muon.cu", "muon_directions", template, grid, _BLOCK, *arrays, *numbers)
    launch("muon.cu", "muon_normalize", template, grid, _BLOCK, stack, partial, size)
    return stack


def polynomial(gram, square, coefficients):
    """``a I + b G + c G^2`` for contiguous stacks of G and of G^2, in-place of the latter."""
    numbers = gram.shape[-1], gram.size, *map(float, coefficients)
    grid = blocks_for(gram.size, _BLOCK)
    launch("muon.cu", "muon_polynomial", (gram.dtype,), grid, _BLOCK, gram, square, *numbers)
    return square


def apply(values, places, updates, steps, *, decay, lr):
    """Multiply each matrix by ``decay``, and subtract ``lr`` times its update, in-place."""
    count, rows, columns = updates.shape
    grid = min(blocks_for(rows * columns, _BLOCK), _MOST_BLOCKS), count
    arrays = values, places, updates
    numbers = rows, columns, *steps, float(decay), float(lr)
    launch("muon.cu", "muon_apply", (values.dtype,), grid, _BLOCK, *arrays, *numbers)


register_update("muon_directions", "cuda", directions)
register_update("muon_polynomial", "cuda", polynomial)
register_update("muon_apply", "cuda", apply)
