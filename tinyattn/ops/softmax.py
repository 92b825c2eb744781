"""Softmax, its logarithm, and the log-sum-exp that both are built on."""

from ..autograd import primitive
from ..backend import array_namespace


@primitive
def softmax(x, /, axis=-1):
    """Exponentials of ``x`` along ``axis``, divided by their sum.

    y_i = exp(x_i - m) / sum_j exp(x_j - m)  with  m = max_j x_j, which changes nothing but keeps exp finite.

    Backward. dy_i/dx_j = y_i (delta_ij - y_j). With the cotangent g of y,
        dx_j = sum_i g_i y_i (delta_ij - y_j) = y_j (g_j - sum_i g_i y_i):
    every score is pulled by its own g less the average g under the distribution, so that the dx of a row sum to 0.

    >>> import tinyattn as ta
    >>> ta.softmax(ta.tensor([0.0, 0.0]))
    Tensor([0.5, 0.5])
    """
    xp = array_namespace(x)
    e = xp.exp(x - xp.max(x, axis=axis, keepdims=True))
    return e / xp.sum(e, axis=axis, keepdims=True)


@softmax.vjp
def softmax_vjp(g, y, _x, *, axis=-1):
    xp = array_namespace(y)
    return y * (g - xp.sum(g * y, axis=axis, keepdims=True))
