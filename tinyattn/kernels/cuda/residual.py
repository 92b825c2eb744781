"""The residual stream of a transformer block: what a branch adds to it.

Trade-offs: bias, dropout and sum take one launch and one pass over memory, where each operation by itself takes one.
"""

from typing import NamedTuple

from ...backend import backend_of
from .dropout import mask_numbers
from .launch import blocks_for, launch

_BLOCK = 256
_COLUMNS = 128  # threads of a block, each of which sums a column
NO_DROPOUT = mask_numbers(0.0, None)


class Branch(NamedTuple):
    """The output of a branch: D(product + bias) with dropout D."""

    product: object = None  # (rows, width); None for no branch
    bias: object = None
    dropout: tuple = NO_DROPOUT  # as from mask_numbers


NO_BRANCH = Branch()


def dropout_mask(p, key):
    """The numbers from which kernels compute a mask; ``NO_DROPOUT`` for ``p = 0``."""
    return mask_numbers(p, key) if p else NO_DROPOUT


def add_branch(x, branch):
    """The sum of contiguous rows and a branch, (rows, width)."""
    out = backend_of(x).empty(x.shape, x.dtype)
    arrays = x, branch.product, branch.bias, out
    numbers = x.size, x.shape[1], *branch.dropout
    grid = blocks_for(x.size, _BLOCK)
    launch("residual.cu", "add_branch", (x.dtype,), grid, _BLOCK, *arrays, *numbers)
    return out


def add_branch_backward(g, sums, name, dropout):
    """The cotangent of the product of a branch, and the partial sums ``name`` for its bias, if there is one.

    ``g`` itself if there is neither dropout nor a bias.
    """
    partial = sums.columns(name)
    if dropout is NO_DROPOUT and partial is None:
        return g
    rows, width = g.shape
    dbranch = None if dropout is NO_DROPOUT else backend_of(g).empty(g.shape, g.dtype)
    grid = (-(-width // _COLUMNS), sums.parts)
    numbers = rows, width, sums.stride, *dropout
    arrays = g, dbranch, partial
    launch("residual.cu", "add_branch_backward", (g.dtype,), grid, _COLUMNS, *arrays, *numbers)
    return g if dbranch is None else dbranch
