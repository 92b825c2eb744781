"""Shared arithmetic of the CPU kernels: row blocks that stay in cache, and sums that BLAS computes."""

import functools

import numpy as np

# One operand of a block. Two of them fit the second-level cache of a core: more of them would, were they smaller,
# but measured, the start of each call then costs more than the cache wins.
BLOCK_BYTES = 1 << 19
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def is_floating(*arrays):
    """Whether all ``arrays`` are NumPy arrays of one dtype, float32 or float64: what the kernels are written for."""
    dtype = arrays[0].dtype
    if dtype not in _FLOATS:
        return False
    return all(type(array) is np.ndarray and array.dtype == dtype for array in arrays)


def row_blocks(rows, row_bytes, block_bytes=BLOCK_BYTES):
    """Slices that cut ``rows`` into nearly equal blocks of about ``block_bytes``."""
    blocks = max(1, round(rows * row_bytes / block_bytes))
    step = -(-rows // blocks) if rows else 1
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def as_rows(array):
    """``array`` as a matrix of its last axis: a view wherever the strides allow it."""
    return array.reshape(-1, array.shape[-1])


def heads_swapped(array):
    """Whether ``array`` is (..., heads, length, width) seen through memory laid out (..., length, heads, width)."""
    return (
        array.ndim >= 3
        and not array.flags.c_contiguous
        and array.swapaxes(-3, -2).flags.c_contiguous
    )


@functools.lru_cache(maxsize=64)
def ones(length, dtype):
    """A read-only vector of ones: a product with it is a sum that runs at BLAS speed."""
    vector = np.ones(length, dtype)
    vector.flags.writeable = False
    return vector


@functools.lru_cache(maxsize=64)
def shares(length, dtype):
    """A read-only vector of ``1 / length``: a product with it is a mean that runs at BLAS speed."""
    vector = np.full(length, 1 / length, dtype)
    vector.flags.writeable = False
    return vector


def column_sums(matrix):
    """The sum over rows of a matrix, (rows, columns) -> (columns,)."""
    return ones(matrix.shape[0], matrix.dtype) @ matrix


def row_sums(matrix):
    """The sum over the last axis, (..., columns) -> (...)."""
    return matrix @ ones(matrix.shape[-1], matrix.dtype)


def row_means(matrix):
    """The mean over the last axis, (..., columns) -> (...)."""
    return matrix @ shares(matrix.shape[-1], matrix.dtype)
