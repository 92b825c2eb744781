"""Sums over the rows of a matrix, in a fixed order: the same bits in every run.

Trade-offs: the rows are divided among up to 256 blocks, and a second launch adds their partial sums. Atomic additions
would save that launch, but add in a different order in every run. ``PartialSums`` collects the partial sums of several
kernels, so that one launch finishes all of them.
"""

import math

from ...backend import backend_of
from .launch import launch
from .rows import wide

_BLOCK = 128
_MOST_SUMS = 256  # blocks over the rows, each of which leaves a partial sum
_ROWS = 8  # per block at least


def row_parts(rows):
    """The number of partial sums over so many rows."""
    return max(1, min(-(-rows // _ROWS), _MOST_SUMS))


def column_sums(matrix):
    """The sum over the rows of a contiguous matrix, (rows, columns) -> (columns,)."""
    rows, columns = matrix.shape
    if row_parts(rows) == 1:
        return _sum(matrix, matrix.dtype)
    sums = PartialSums(matrix, rows, {"columns": columns})
    sums.add("columns", matrix)
    return sums.finish()["columns"]


def sum_partials(partial, dtype):
    """The sum over the first axis, (parts, ...) -> (...), as ``dtype``."""
    return _sum(partial.reshape((partial.shape[0], -1)), dtype).reshape(partial.shape[1:])


def _sum(matrix, dtype):
    """(rows, columns) -> (columns,)"""
    out = backend_of(matrix).empty(matrix.shape[1:], dtype)
    _launch(matrix, out, *matrix.shape, grid=(1, 1))
    return out


class PartialSums:
    """Sums over the same number of rows, of which several kernels leave parts, and one launch computes the totals.

    Args:
        like: an array of the dtype of the totals, on their device.
        rows: number of rows that are summed.
        widths: ``{name: number of columns}`` of the sums, in the order of ``partial``.

    Attributes:
        partial: (parts, all columns). Kernels write to the columns from ``columns(name)`` on, with ``stride`` columns
            from one part to the next.
    """

    def __init__(self, like, rows, widths):
        self.widths = widths
        self.dtype = like.dtype
        self.parts = row_parts(rows)
        self.stride = sum(widths.values())
        shape = self.parts, self.stride
        self.partial = backend_of(like).empty(shape, wide(like.dtype)) if self.stride else None
        self._starts = {}
        start = 0
        for name, width in widths.items():
            self._starts[name] = start
            start += width

    def columns(self, name):
        """The columns of ``partial`` from those of ``name`` on; None if there is no such sum."""
        return self.partial[:, self._starts[name] :] if name in self._starts else None

    def add(self, name, matrices):
        """Leave the partial sums of a matrix, or of a stack of them, (..., rows, columns) contiguous."""
        *stack, rows, columns = matrices.shape
        grid = self.parts, math.prod(stack)
        _launch(matrices, self.columns(name), rows, columns, self.stride, grid=grid)

    def finish(self):
        """The totals, ``{name: (columns,)}``, in one launch."""
        if self.partial is None:
            return {}
        totals = _sum(self.partial, self.dtype)
        return {
            name: totals[start : start + self.widths[name]] for name, start in self._starts.items()
        }


def _launch(matrices, sums, rows, columns, stride=0, *, grid):
    grid = (-(-columns // _BLOCK), *grid)
    template = matrices.dtype, sums.dtype
    numbers = rows, columns, stride
    launch("columns.cu", "column_sums", template, grid, _BLOCK, matrices, sums, *numbers)
