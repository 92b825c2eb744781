"""Matrix products split into pieces of the size at which BLAS is fastest.

OpenBLAS copies (packs) the operands of a product into panels first, unless it has at most 100**3 multiplications. For
operands in the L2 cache the copy is pure overhead: split into pieces below the bound, the products of a small model are
10 to 20 % faster (AVX-512, one thread).

Trade-offs: a piece is too small for several threads. Products are split only if BLAS is limited to one thread, as in
workers.
"""

import functools

import numpy as np

from ...backend import blas

_LARGEST_UNCOPIED = 100**3  # multiplications
# L2 cache of a core: for larger operands, reading them repeatedly costs more than the copy.
_CACHE_BYTES = 1 << 20
_ROWS, _COLUMNS = 64, 16  # of a piece


def multiply(left, right, out):
    """Compute ``left @ right`` for stacks of matrices into ``out``, a few rows at a time; returns ``out``."""
    pieces = _pieces(left.shape[-2], left.shape[-1] * right.shape[-1], _LARGEST_UNCOPIED)
    if pieces == 1 or not blas.has_one_thread():
        return np.matmul(left, right, out=out)
    np.matmul(_split(left, pieces), right[..., None, :, :], out=_split(out, pieces))
    return out


def multiply_matrices(left, right, out):
    """Compute ``left @ right`` for two matrices into ``out``, a few rows and columns at a time."""
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
    """The number of equal pieces with at most ``most`` multiplications, as far as a power of two divides the rows."""
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


def _split(matrices, pieces):
    """View (..., rows, columns) as (..., pieces, rows / pieces, columns)."""
    *leading, rows, columns = matrices.shape
    return matrices.reshape(*leading, pieces, rows // pieces, columns)
