"""Sums over the rows of a matrix, in a fixed order: the same bits every time."""

from ...backend import backend_of
from .launch import launch
from .rows import wide

_BLOCK = 128
_MOST_SUMS = 256  # blocks over the rows, each of which leaves a partial sum
_ROWS = 32  # of a block at least


def column_sums(matrix):
    """The sum over the rows of a contiguous matrix, (rows, columns) -> (columns,)."""
    rows, columns = matrix.shape
    parts = max(1, min(-(-rows // _ROWS), _MOST_SUMS))
    if parts == 1:
        return _sum(matrix, matrix.dtype, 1).reshape((columns,))
    return sum_partials(_sum(matrix, wide(matrix.dtype), parts), matrix.dtype)


def sum_partials(partial, dtype):
    """The sum over the first axis, (parts, ...) -> (...), as ``dtype``."""
    shape = partial.shape[1:]
    return _sum(partial.reshape((partial.shape[0], -1)), dtype, 1).reshape(shape)


def _sum(matrix, dtype, parts):
    """(rows, columns) -> (parts, columns): each part sums every ``parts``-th row."""
    rows, columns = matrix.shape
    out = backend_of(matrix).empty((parts, columns), dtype)
    grid = (-(-columns // _BLOCK), parts)
    launch(
        "columns.cu", "column_sums", (matrix.dtype, dtype), grid, _BLOCK, matrix, out, rows, columns
    )
    return out
