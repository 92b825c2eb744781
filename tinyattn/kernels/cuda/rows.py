"""Rows of arrays, and their distribution among threads.

Trade-offs: a warp per row needs no barrier and suits rows of up to 512 numbers; longer rows take a block each.
"""

import math
from typing import NamedTuple

import numpy as np

_FLOATS = "efd"
_BLOCK = 128  # threads of a block with a row per warp
_WIDE_BLOCK = 256  # threads that share a long row


class RowLayout(NamedTuple):
    """``threads`` threads share a row, each with ``items`` of its numbers, in blocks of ``block`` threads."""

    threads: int
    items: int
    block: int
    blocks: int


def row_layout(rows):
    """The ``RowLayout`` of a matrix (rows, width); None if a row does not fit the registers of its threads.

    >>> import numpy as np
    >>> row_layout(np.empty((10, 33)))
    RowLayout(threads=32, items=2, block=128, blocks=3)
    """
    count, width = rows.shape
    items = _power_of_two(math.ceil(width / 32))
    if items <= 16:
        return RowLayout(32, items, _BLOCK, -(-count // (_BLOCK // 32)))
    items = _power_of_two(math.ceil(width / _WIDE_BLOCK))
    return RowLayout(_WIDE_BLOCK, items, _WIDE_BLOCK, count) if items <= 8 else None


def is_floating(*arrays):
    """Whether all ``arrays`` have one dtype, float16, float32 or float64, and are of one backend."""
    dtype = arrays[0].dtype
    return dtype.char in _FLOATS and all(
        type(array) is type(arrays[0]) and array.dtype == dtype for array in arrays
    )


def wide(dtype):
    """The dtype of arithmetic: float64 for float64, float32 for the others."""
    return np.promote_types(dtype, np.float32)


def takes_rows(x, axes):
    """Whether ``axes`` are the last axes of ``x``, a floating-point array that is not empty."""
    count = len(axes)
    trailing = tuple(range(x.ndim - count, x.ndim))
    return (
        count > 0 and x.size > 0 and tuple(axis % x.ndim for axis in axes) == trailing
    ) and x.dtype.char in _FLOATS


def affine_fits(x, axes, *affine):
    """Whether weights and biases are contiguous, of the shape and the dtype of a row."""
    shape = x.shape[x.ndim - len(axes) :]
    return all(
        array is None
        or (is_floating(x, array) and array.shape == shape and array.flags.c_contiguous)
        for array in affine
    )


def as_rows(array, count=1, like=None):
    """``array`` as a contiguous matrix of its last ``count`` axes, and a function that restores the shape.

    The rows are in the order of memory: heads that are views of a projection, (batch, heads, length, width) as a view
    of (batch, length, heads, width), are not copied. The order is irrelevant: each row is computed by itself.

    Args:
        like: the function returned for another array of this shape, for rows in the same order.
    """
    if like is None:
        swapped = count == 1 and heads_swapped(array)
        like = _Restore(array.shape, count, swapped)
    if like.swapped:
        array = array.swapaxes(-3, -2)
    return contiguous(array).reshape((-1, like.width)), like


class _Restore:
    def __init__(self, shape, count, swapped):
        self.shape = tuple(shape)
        self.width = math.prod(self.shape[len(shape) - count :])
        self.swapped = swapped

    def __call__(self, rows):
        if not self.swapped:
            return rows.reshape(self.shape)
        *leading, heads, length, width = self.shape
        return rows.reshape((*leading, length, heads, width)).swapaxes(-3, -2)


def heads_swapped(array):
    """Whether ``array`` (..., heads, length, width) is a view of contiguous memory (..., length, heads, width)."""
    return (
        array.ndim >= 3
        and not array.flags.c_contiguous
        and array.swapaxes(-3, -2).flags.c_contiguous
    )


def contiguous(array):
    """``array`` itself if it is contiguous, else a contiguous copy."""
    return array if array.flags.c_contiguous else array.copy()


def _power_of_two(number):
    return 1 << (number - 1).bit_length()
