"""x W + b: one matrix product over all tokens, and a launch that adds the bias in-place.

Trade-offs: leading axes are flattened, for one large product. The bias gradient is a sum over rows in a fixed order.
"""

from ...autograd import register_kernel
from ...backend import backend_of
from .columns import column_sums
from .elementwise import LARGEST
from .launch import blocks_for, launch
from .products import multiply
from .rows import contiguous, is_floating

_BLOCK = 256


def forward(x, weight, bias):
    if x.ndim < 2 or x.size == 0 or weight.size == 0 or not is_floating(x, weight):
        return NotImplemented
    if weight.ndim != 2 or x.shape[-1] != weight.shape[0]:
        return NotImplemented
    if bias is not None and (bias.shape != weight.shape[1:] or not is_floating(x, bias)):
        return NotImplemented
    rows = contiguous(x).reshape((-1, x.shape[-1]))
    out = backend_of(x).empty((rows.shape[0], weight.shape[1]), x.dtype)
    if out.size > LARGEST:
        return NotImplemented
    multiply(rows, weight, out)
    if bias is not None:
        numbers = out.size, out.shape[1]
        grid = blocks_for(out.size, _BLOCK)
        launch("linear.cu", "add_bias", (x.dtype,), grid, _BLOCK, out, contiguous(bias), *numbers)
    return out.reshape(x.shape[:-1] + weight.shape[1:]), (rows, weight, bias is not None, x.shape)


def backward(g, residuals):
    rows, weight, has_bias, shape = residuals
    backend = backend_of(g)
    g_rows = contiguous(g).reshape((-1, g.shape[-1]))
    dx = multiply(g_rows, weight.T, backend.empty(rows.shape, rows.dtype))
    dweight = multiply(rows.T, g_rows, backend.empty(weight.shape, weight.dtype))
    return dx.reshape(shape), dweight, column_sums(g_rows) if has_bias else None


register_kernel("linear", "cuda", forward, backward)
