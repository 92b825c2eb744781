"""Softmax, log-softmax and log-sum-exp.

All three start from e_i = exp(x_i - m) with the maximum m of the row, which cancels in quotients and prevents overflow.
Infinite scores are defined there, too: a score of -inf (masked) has probability 0; scores of +inf share the probability
equally; and in a row of -inf only, every probability is 0, so that a row with no allowed key contributes nothing to
output or gradient.
"""

from ..autograd import primitive
from ..backend import array_namespace
from .axes import with_reduced_axes
from .conversion import at_least_float32, in_dtype_of, wide_floats


def exponentials(x, axis):
    """``exp(x - m)``, and the maximum ``m`` of the scores above -inf in each row (0 if there are none).

    >>> import numpy as np
    >>> exponentials(np.array([1000.0, 1000.0, -np.inf]), axis=-1)
    (array([1., 1., 0.]), array([1000.]))
    """
    xp = array_namespace(x)
    x = wide_floats(x)
    m = (xp.max if x.size else xp.sum)(x, axis=axis, keepdims=True)  # 0 if there are no scores
    m = xp.where(m == -xp.inf, 0, m)  # -inf - -inf would be NaN
    return xp.where(x == m, 1, xp.exp(x - m)), m  # inf - inf would be NaN, too


@primitive
def softmax(x, /, axis=-1):
    """Exponentials of ``x`` along ``axis``, divided by their sum.

    Args:
        x: scores, of any shape.
        axis: the axis, or the tuple of axes, along which the results sum to 1.

    y_i = exp(x_i - m) / sum_j exp(x_j - m)  with  m = max_j x_j, which cancels but keeps exp finite. The sum is at
    least 1, the term of the maximum, except in a row of -inf only: there it is 0, and so is every y_i.

    Backward. dy_i/dx_j = y_i (delta_ij - y_j). With the cotangent g of y,
        dx_j = sum_i g_i y_i (delta_ij - y_j) = y_j (g_j - sum_i g_i y_i):
    y_j times the difference of g_j from the mean of g under the distribution, so that the dx of a row sum to 0. Adding
    a constant to all g of a row does not change dx: see ``relative_to_likeliest``.

    Source: J. S. Bridle, "Probabilistic Interpretation of Feedforward Classification Network Outputs" (1990), eq. 8.

    >>> import tinyattn as ta
    >>> ta.softmax(ta.tensor([0.0, 0.0]))
    Tensor([0.5, 0.5])
    """
    xp = array_namespace(x)
    e, _ = exponentials(x, axis)
    return in_dtype_of(x, e / xp.maximum(xp.sum(e, axis=axis, keepdims=True), 1))


@softmax.vjp
def softmax_vjp(g, y, _x, *, axis=-1):
    xp = array_namespace(y)
    g, y = at_least_float32(g), at_least_float32(y)
    g = relative_to_likeliest(g, y, axis)
    return y * (g - xp.sum(g * y, axis=axis, keepdims=True))


def relative_to_likeliest(g, y, axis):
    """The cotangent ``g`` of probabilities ``y`` minus its value at the class with y > 1/2, if there is one.

    As the probability of a class approaches 1, its g and the mean of g differ by less than their rounding error. After
    the subtraction, its g is exactly 0, and the mean consists of the small contributions of the other classes.

    >>> import numpy as np
    >>> relative_to_likeliest(np.array([3.0, 5.0]), np.array([1.0, 1e-20]), -1)
    array([0., 2.])
    """
    xp = array_namespace(g, y)
    g = at_least_float32(g)
    return g - xp.sum(xp.where(y > 0.5, g, 0), axis=axis, keepdims=True)


@primitive
def log_softmax(x, /, axis=-1):
    """The logarithm of ``softmax(x, axis)``, without computing the softmax.

    Args:
        x: scores, of any shape.
        axis: the axis, or the tuple of axes, along which the probabilities sum to 1.

    y_i = x_i - log sum_j exp(x_j) = (x_i - m) - log sum_j exp(x_j - m)  with  m = max_j x_j.
    Probabilities that underflow to 0 have a finite logarithm; ``log(softmax(x))`` would be -inf there. For a row of
    -inf, whose probabilities are 0, the logarithms are -inf.

    Backward. dy_i/dx_j = delta_ij - p_j with p = exp(y), so that
        dx_j = sum_i g_i (delta_ij - p_j) = g_j - p_j sum_i g_i.
    The dx of a row sum to 0: see ``summing_to_zero``.

    >>> import tinyattn as ta
    >>> ta.log_softmax(ta.tensor([0.0, -1000.0]))
    Tensor([    0., -1000.])
    """
    xp = array_namespace(x)
    e, m = exponentials(x, axis)
    total = xp.maximum(xp.sum(e, axis=axis, keepdims=True), 1)
    return in_dtype_of(x, xp.where(x == m, 0, x - m) - xp.log(total))


@log_softmax.vjp
def log_softmax_vjp(g, y, _x, *, axis=-1):
    xp = array_namespace(y)
    g, y = at_least_float32(g), at_least_float32(y)
    p = xp.exp(y)
    return summing_to_zero(g - p * xp.sum(g, axis=axis, keepdims=True), p, axis)


def summing_to_zero(dx, p, axis):
    """``dx`` with its element at the class with p > 1/2, if any, replaced so that all elements sum to 0.

    As the probability of a class approaches 1, its difference from 1, and so its dx, is less than the rounding error.
    The dx of the other classes are small, and accurate.

    >>> import numpy as np
    >>> summing_to_zero(np.array([1 - 1.0, 1e-20]), np.array([1.0, 1e-20]), -1)
    array([-1.e-20,  1.e-20])
    """
    xp = array_namespace(dx)
    likeliest = p > 0.5  # at most one class
    return xp.where(likeliest, -xp.sum(xp.where(likeliest, 0, dx), axis=axis, keepdims=True), dx)


@primitive
def logsumexp(x, /, axis=None, keepdims=False):
    """The logarithm of the sum of the exponentials of ``x`` along ``axis``: a smooth maximum.

    Args:
        x: of any shape.
        axis: the axis, or the tuple of axes, that is reduced; all of them by default.
        keepdims: keep the reduced axes, with length 1.

    y = log sum_j exp(x_j) = m + log sum_j exp(x_j - m)  with  m = max_j x_j. For a row of -inf it is -inf.

    Backward. dy/dx_j = exp(x_j) / sum_i exp(x_i) = softmax(x)_j. For a row of -inf it is 0.

    >>> import tinyattn as ta
    >>> f"{ta.logsumexp(ta.tensor([1000.0, 1000.0])):.3f}"
    '1000.693'
    """
    xp = array_namespace(x)
    e, m = exponentials(x, axis)
    y = in_dtype_of(x, m + xp.log(xp.sum(e, axis=axis, keepdims=True)))
    return y if keepdims else xp.squeeze(y, axis=axis)


@logsumexp.vjp
def logsumexp_vjp(g, _out, x, *, axis=None, keepdims=False):
    g = with_reduced_axes(g, x.shape, axis, keepdims)
    return g * softmax.rule(x, axis=axis)
