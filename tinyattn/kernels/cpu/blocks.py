"""Arithmetic shared by the CPU kernels: blocks of rows that fit the cache, and sums computed by BLAS."""

import functools
import math

import numpy as np

# Size of one operand of a block: two fit the L2 cache of a core. Measured: in smaller blocks, the overhead of the calls
# exceeds the gain from the cache.
BLOCK_BYTES = 1 << 19
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def is_floating(*arrays):
    """Whether all ``arrays`` are NumPy arrays of one dtype, float32 or float64, which the kernels support."""
    dtype = arrays[0].dtype
    if dtype not in _FLOATS:
        return False
    return all(type(array) is np.ndarray and array.dtype == dtype for array in arrays)


def row_blocks(rows, row_bytes, block_bytes=BLOCK_BYTES):
    """Slices that split ``rows`` into blocks of nearly equal size, about ``block_bytes``."""
    blocks = max(1, round(rows * row_bytes / block_bytes))
    step = -(-rows // blocks) if rows else 1
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def as_rows(array):
    """``array`` reshaped to (rows, last axis), a view if the strides allow it."""
    return array.reshape(-1, array.shape[-1])


def heads_swapped(array):
    """Whether ``array`` (..., heads, length, width) is a view of contiguous memory (..., length, heads, width)."""
    return (
        array.ndim >= 3
        and not array.flags.c_contiguous
        and array.swapaxes(-3, -2).flags.c_contiguous
    )


def row_width(x, axes, *affine):
    """The length of a row of ``x`` along ``axes`` for the normalization kernels; None if they do not support it.

    Args:
        axes: must be the last axes.
        affine: weight and bias, of the shape of a row, or None.
    """
    count = len(axes)
    if count == 0 or tuple(axis % x.ndim for axis in axes) != tuple(range(x.ndim - count, x.ndim)):
        return None
    affine = [array for array in affine if array is not None]
    shape = x.shape[-count:]
    if x.size == 0 or not is_floating(x, *affine) or any(array.shape != shape for array in affine):
        return None
    return math.prod(shape)


@functools.lru_cache(maxsize=64)
def ones(length, dtype):
    """A read-only vector of ones: a product with it is a sum computed by BLAS."""
    return _read_only(np.ones(length, dtype))


@functools.lru_cache(maxsize=64)
def shares(length, dtype):
    """A read-only vector of ``1 / length``: a product with it is a mean computed by BLAS."""
    return _read_only(np.full(length, 1 / length, dtype))


def _read_only(vector):
    vector.flags.writeable = False
    return vector


def column_sums(matrix):
    """The sums of the columns of a matrix, (rows, columns) -> (columns,)."""
    return ones(matrix.shape[0], matrix.dtype) @ matrix


def row_sums(matrix):
    """The sum over the last axis, (..., columns) -> (...)."""
    return matrix @ ones(matrix.shape[-1], matrix.dtype)


def row_means(matrix):
    """The mean over the last axis, (..., columns) -> (...)."""
    return matrix @ shares(matrix.shape[-1], matrix.dtype)
