"""Activation functions: one launch forward, one backward; ``gelu`` and ``relu_squared`` register them.

Trade-offs: only x is saved, and backward computes tanh or erf again: on a GPU arithmetic takes less time than reading
the derivative from memory. In a transformer block the bias is added in the same pass.
"""

from ...backend import backend_of
from .elementwise import map_elements
from .launch import blocks_for, launch
from .rows import contiguous

KINDS = {"gelu": 0, "gelu_tanh": 1, "relu_squared": 2}
_BLOCK = 256
_COLUMNS = 128  # threads of a block, each of which sums a column


def activate(x, kind, bias=None):
    """The activation of contiguous ``x``, or of ``x + bias``."""
    out = backend_of(x).empty(x.shape, x.dtype)
    template = x.dtype, KINDS[kind]
    grid = blocks_for(x.size, _BLOCK)
    width = 1 if bias is None else bias.size
    arrays = x, bias, out
    launch("activations.cu", "activation_forward", template, grid, _BLOCK, *arrays, x.size, width)
    return out


def activate_backward(g, x, kind):
    """The cotangent of ``x``."""
    return map_elements("activations.cu", "activation_backward", (KINDS[kind],), [g, x])


def activate_biased_backward(g, x, kind, bias, sums, name):
    """The cotangent of the rows ``x``, and the partial sums ``name`` for the bias that was added to them."""
    rows, width = x.shape
    dx = backend_of(x).empty(x.shape, x.dtype)
    grid = (-(-width // _COLUMNS), sums.parts)
    arrays = contiguous(g), x, bias, dx, sums.columns(name)
    launch(
        "activations.cu",
        "biased_activation_backward",
        (x.dtype, KINDS[kind]),
        grid,
        _COLUMNS,
        *arrays,
        rows,
        width,
        sums.stride,
    )
    return dx
