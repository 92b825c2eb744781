"""The affine map x W + b as one matrix product over all tokens.

Trade-offs: leading axes are flattened, for one large product instead of many small ones (split if that is faster, see
products.py), and the bias is added in-place. The bias gradient is a product with a vector of ones: BLAS sums faster
than NumPy.
"""

from ...autograd import register_kernel
from ...backend.pool import empty
from .blocks import as_rows, column_sums, is_floating
from .products import multiply_matrices


def accepts(x, weight, bias):
    """Whether the kernel supports these inputs; the rule raises the error if they are incompatible."""
    if x.ndim < 2 or x.size == 0 or weight.size == 0 or not is_floating(x, weight):
        return False
    if weight.ndim != 2 or x.shape[-1] != weight.shape[0]:
        return False
    return bias is None or (bias.shape == weight.shape[1:] and is_floating(x, bias))


def forward(x, weight, bias):
    if not accepts(x, weight, bias):
        return NotImplemented
    rows = as_rows(x)
    out = empty((rows.shape[0], weight.shape[1]), x.dtype)
    multiply_matrices(rows, weight, out)
    if bias is not None:
        out += bias
    return out.reshape(x.shape[:-1] + weight.shape[1:]), (x, weight, bias is not None)


def backward(g, residuals):
    x, weight, has_bias = residuals
    rows, g_rows = as_rows(x), as_rows(g)
    dx = empty(rows.shape, x.dtype)
    multiply_matrices(g_rows, weight.T, dx)
    dweight = empty(weight.shape, weight.dtype)
    multiply_matrices(rows.T, g_rows, dweight)
    return dx.reshape(x.shape), dweight, column_sums(g_rows) if has_bias else None


register_kernel("linear", "cpu", forward, backward)
