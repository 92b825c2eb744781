"""Matrix products in pieces of the size at which BLAS is fastest.

OpenBLAS copies the operands of a product into panels before it multiplies, except where the product has no more than
100**3 multiplications. For operands that lie in the second-level cache anyway the copy only costs: in pieces below the
bound, products of a small model's size run a tenth to a fifth faster (AVX-512, one thread).

What it trades: a piece is too small to be shared among threads. Products are cut only where BLAS has one thread, as it
has for workers.
"""

import functools

import numpy as np

from ...backend import blas

_LARGEST_UNCOPIED = 100**3  # multiplications
# Second-level, of a core: beyond it, reading operands again and again costs more than the copy.
_CACHE_BYTES = 1 << 20
_ROWS, _COLUMNS = 64, 16  # of a piece of a matrix


def multiply(left, right, out):
    """``left @ right`` for stacks of matrices, a few rows at a time, into ``out``, which it returns."""
    pieces = _pieces(left.shape[-2], left.shape[-1] * right.shape[-1], _LARGEST_UNCOPIED)
    if pieces == 1 or not blas.has_one_thread():
        return np.matmul(left, right, out=out)
    np.matmul(_cut(left, pieces), right[..., None, :, :], out=_cut(out, pieces))
    return out


def multiply_matrices(left, right, out):
    """``left @ right`` for two matrices, a few rows and columns at a time, into ``out``."""
    if left.nbytes + right.nbytes > _CACHE_BYTES or not blas.has_one_thread():
        np.matmul(left, right, out=out)
        return
    inner, width = right.shape
    rows, columns = _halved(left.shape[0], _ROWS), _halved(width, _COLUMNS)
    np.matmul(
        left.reshape(-1, 1, rows, inner),
        right.reshape(inner, width // columns, columns).swapaxes(0, 1),
        out=out.reshape(-1, rows, width // columns, columns).swapaxes(1, 2),
    )


@functools.lru_cache(maxsize=1024)
def _pieces(rows, multiplications_per_row, most):
    """How many equal pieces have at most so many: a power of two, as far as one divides the rows."""
    pieces = 1
    while rows * multiplications_per_row > pieces * most and rows % (2 * pieces) == 0:
        pieces *= 2
    return pieces


@functools.lru_cache(maxsize=1024)
def _halved(length, most):
    """``length`` halved until it is at most ``most``, or odd."""
    while length > most and length % 2 == 0:
        length //= 2
    return length


def _cut(matrices, pieces):
    """(..., rows, columns) seen as (..., pieces, rows / pieces, columns)."""
    *leading, rows, columns = matrices.shape
    return matrices.reshape(*leading, pieces, rows // pieces, columns)
