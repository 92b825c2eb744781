"""Reductions along axes, and cumulative sums."""

from ..autograd import Tensor, primitive
from ..autograd.pytorch_names import with_numpys_arguments
from ..backend import array_namespace, backend_of
from .axes import reduced_axes, reduced_count, with_reduced_axes
from .conversion import at_least_float32, in_dtype_of, wide_floats


@primitive
def sum(x, /, axis=None, keepdims=False):
    """The sum of the elements of ``x`` along ``axis``.

    Args:
        axis: one axis, several, or None for all. ``()`` sums over none.
        keepdims: keep the reduced axes, with length 1.

    Backward. The derivative with respect to each element is 1: the cotangent of a sum is broadcast to its elements.

    >>> import tinyattn as ta
    >>> ta.sum(ta.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    Tensor([4., 6.])
    """
    total = array_namespace(x).sum(at_least_float32(x), axis=axis, keepdims=keepdims)
    return in_dtype_of(x, total)


@sum.vjp
def sum_vjp(g, _out, _x, *, axis=None, keepdims=False):
    g = with_reduced_axes(g, _x.shape, axis, keepdims)
    return array_namespace(g).broadcast_to(g, _x.shape)


@primitive
def mean(x, /, axis=None, keepdims=False):
    """The mean of the elements of ``x`` along ``axis``; NaN if there are none.

    Backward. The derivative with respect to each of the n elements is 1/n.

    >>> import tinyattn as ta
    >>> ta.mean(ta.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    Tensor([2., 3.])
    """
    total = array_namespace(x).sum(at_least_float32(x), axis=axis, keepdims=keepdims)
    return in_dtype_of(x, total / reduced_count(x.shape, axis))


@mean.vjp
def mean_vjp(g, _out, _x, *, axis=None, keepdims=False):
    g = at_least_float32(g)  # a count may exceed float16's range
    g = with_reduced_axes(g, _x.shape, axis, keepdims) / reduced_count(_x.shape, axis)
    return array_namespace(g).broadcast_to(g, _x.shape)


@primitive
def var(x, /, axis=None, ddof=0, keepdims=False):
    """The variance of the elements of ``x`` along ``axis``: sum_i (x_i - mean)^2 / (n - ddof).

    Args:
        ddof: delta degrees of freedom: 0 for the population variance, 1 for the unbiased sample variance.

    Backward. Let c_i = x_i - mean. Then d/dx_j sum_i c_i^2 = sum_i 2 c_i (delta_ij - 1/n) = 2 c_j, because the c_i sum
    to 0. So dx_j = 2 g c_j / (n - ddof).

    >>> import tinyattn as ta
    >>> ta.var(ta.tensor([[1.0, 3.0], [2.0, 2.0]]), axis=1)
    Tensor([1., 0.])
    """
    c = centered(wide_floats(x), axis)
    squares = array_namespace(x).sum(c * c, axis=axis, keepdims=keepdims)
    return in_dtype_of(x, squares / _degrees_of_freedom(x, axis, ddof))


@var.vjp
def var_vjp(g, _out, x, *, axis=None, ddof=0, keepdims=False):
    g = with_reduced_axes(at_least_float32(g), x.shape, axis, keepdims)
    return 2 * g / _degrees_of_freedom(x, axis, ddof) * centered(wide_floats(x), axis)


@primitive
def std(x, /, axis=None, ddof=0, keepdims=False):
    """The standard deviation of the elements of ``x`` along ``axis``: the square root of ``var``.

    Backward. y = sqrt(v) has dy = dv / (2y), and dv/dx_j = 2 c_j / (n - ddof) as in ``var``, so
        dx_j = g c_j / ((n - ddof) y).
    If all elements are equal, every c_j and y are 0 and there is no derivative; the subgradient 0 is used.

    Elements are divided by the largest before they are squared, so that squares neither overflow nor underflow.

    >>> import tinyattn as ta
    >>> ta.std(ta.tensor([[1.0, 3.0], [2.0, 2.0]]), axis=1)
    Tensor([1., 0.])
    """
    xp = array_namespace(x)
    c = centered(wide_floats(x), axis)
    largest = magnitude(c, axis)
    squares = xp.sum((c / largest) ** 2, axis=axis, keepdims=True)
    y = in_dtype_of(x, largest * xp.sqrt(squares / _degrees_of_freedom(x, axis, ddof)))
    return y if keepdims else xp.squeeze(y, axis=axis)


@std.vjp
def std_vjp(g, y, x, *, axis=None, ddof=0, keepdims=False):
    xp = array_namespace(y)
    g = with_reduced_axes(at_least_float32(g), x.shape, axis, keepdims)
    y = with_reduced_axes(at_least_float32(y), x.shape, axis, keepdims)
    inverse = xp.where(y == 0, 0, 1 / xp.where(y == 0, 1, y))
    return g / _degrees_of_freedom(x, axis, ddof) * (centered(wide_floats(x), axis) * inverse)


def centered(x, axis):
    """``x`` minus its mean along ``axis``: exactly 0 if all elements are equal.

    The first element is subtracted first, which makes no difference in exact arithmetic. In floating point, the mean of
    equal elements may differ from them, and a sum of large numbers loses small differences between them.

    >>> import numpy as np
    >>> centered(np.array([0.1, 0.1, 0.1]), -1)
    array([0., 0., 0.])
    """
    axes = reduced_axes(axis, x.ndim)
    first = tuple(slice(0, 1) if position in axes else slice(None) for position in range(x.ndim))
    constant = getattr(x, "_data", x)[first]  # the result does not depend on it: no gradient
    shifted = x - constant
    return shifted - mean.rule(shifted, axis=axis, keepdims=True)


def magnitude(x, axis):
    """The largest absolute value of ``x`` along ``axis``, or 1 if all are 0; reduced axes are kept.

    Used as a scale that cancels, so it needs no gradient: squares of numbers divided by it are at most 1.

    >>> import numpy as np
    >>> magnitude(np.array([[3.0, -4.0], [0.0, 0.0]]), -1).tolist()
    [[4.0], [1.0]]
    """
    x = getattr(x, "_data", x)
    xp = array_namespace(x)
    largest = (xp.max if x.size else xp.sum)(xp.abs(x), axis=axis, keepdims=True)
    return xp.where(largest == 0, 1, largest)


def _degrees_of_freedom(x, axis, ddof):
    count = reduced_count(x.shape, axis) - ddof
    return float(count) if count > 0 else 0.0


@primitive
def prod(x, /, axis=None, keepdims=False):
    """The product of the elements of ``x`` along ``axis``.

    Backward. dy/dx_i is the product of the *other* elements. As y / x_i it would be 0/0 at a zero; as the product of
    those before i times the product of those after i it is exact for any number of zeros.

    >>> import tinyattn as ta
    >>> x = ta.tensor([2.0, 0.0, 4.0], requires_grad=True)
    >>> ta.prod(x).backward()
    >>> x.grad
    Tensor([0., 8., 0.])
    """
    return array_namespace(x).prod(x, axis=axis, keepdims=keepdims)


@prod.vjp
def prod_vjp(g, _out, x, *, axis=None, keepdims=False):
    xp = array_namespace(x)
    axes = reduced_axes(axis, x.ndim)
    kept = x.ndim - len(axes)
    last = tuple(range(kept, x.ndim))
    moved = xp.moveaxis(x, axes, last)
    rows = xp.reshape(moved, (*moved.shape[:kept], reduced_count(x.shape, axis)))
    others = products_before(rows) * xp.flip(products_before(xp.flip(rows, -1)), -1)
    others = xp.moveaxis(xp.reshape(others, moved.shape), last, axes)
    return with_reduced_axes(g, x.shape, axis, keepdims) * others


def products_before(x):
    """The exclusive cumulative product along the last axis: for each element, the product of those before it.

    Computed in log2(n) rounds, each one multiplication of arrays, for products of 1, 2, 4, ... elements.

    Source: W. D. Hillis, G. L. Steele, "Data Parallel Algorithms" (1986).

    >>> import numpy as np
    >>> products_before(np.array([2.0, 3.0, 4.0, 5.0]))
    array([ 1.,  2.,  6., 24.])
    """
    xp = array_namespace(x)
    products = xp.concatenate([xp.ones_like(x[..., :1]), x[..., :-1]], axis=-1)
    reach = 1
    while reach < x.shape[-1]:
        longer = products[..., reach:] * products[..., :-reach]
        products = xp.concatenate([products[..., :reach], longer], axis=-1)
        reach *= 2
    return products


@primitive
def max(x, /, axis=None, keepdims=False):
    """The largest element of ``x`` along ``axis``; NaN if one of them is NaN.

    Raises:
        ValueError: if there are no elements.

    Backward. The cotangent goes to the largest element. For ties, any convex combination is a subgradient; they share
    the cotangent equally.

    >>> import tinyattn as ta
    >>> x = ta.tensor([1.0, 3.0, 3.0], requires_grad=True)
    >>> ta.max(x).backward()
    >>> x.grad
    Tensor([0. , 0.5, 0.5])
    """
    return array_namespace(x).max(x, axis=axis, keepdims=keepdims)


@max.vjp
def max_vjp(g, y, x, *, axis=None, keepdims=False):
    return _select_cotangent(g, y, x, axis, keepdims)


@primitive
def min(x, /, axis=None, keepdims=False):
    """The smallest element of ``x`` along ``axis``; NaN if one of them is NaN.

    Raises:
        ValueError: if there are no elements.

    Backward. As for ``max``: the cotangent goes to the smallest element; ties share it equally.

    >>> import tinyattn as ta
    >>> ta.min(ta.tensor([[1.0, 3.0], [5.0, 4.0]]), axis=1)
    Tensor([1., 4.])
    """
    return array_namespace(x).min(x, axis=axis, keepdims=keepdims)


@min.vjp
def min_vjp(g, y, x, *, axis=None, keepdims=False):
    return _select_cotangent(g, y, x, axis, keepdims)


def _select_cotangent(g, y, x, axis, keepdims):
    g = with_reduced_axes(at_least_float32(g), x.shape, axis, keepdims)
    y = with_reduced_axes(y, x.shape, axis, keepdims)
    selected = (x == y) | (x != x)  # a NaN is the result wherever there is one
    count = array_namespace(selected).sum(selected, axis=axis, keepdims=True, dtype=g.dtype)
    return array_namespace(g).where(selected, g / count, 0)


@primitive
def cumsum(x, /, axis=None):
    """The cumulative sum of ``x`` along ``axis``; None flattens ``x`` first.

    Backward. y_i = sum_{j <= i} x_j, so dx_j = sum_{i >= j} g_i: a cumulative sum from the end.

    >>> import tinyattn as ta
    >>> ta.cumsum(ta.tensor([1.0, 2.0, 3.0]))
    Tensor([1., 3., 6.])
    """
    return in_dtype_of(x, array_namespace(x).cumsum(at_least_float32(x), axis=axis))


@cumsum.vjp
def cumsum_vjp(g, _out, _x, *, axis=None):
    xp = array_namespace(g)
    along = 0 if axis is None else axis
    from_the_end = xp.cumsum(xp.flip(at_least_float32(g), along), axis=along)
    return xp.reshape(xp.flip(from_the_end, along), _x.shape)


@with_numpys_arguments
def argmax(x, axis=None, keepdims=False):
    """The index of the largest element of ``x`` along ``axis``, the first one for ties; integers, without gradient.

    >>> import tinyattn as ta
    >>> ta.argmax(ta.tensor([[1.0, 3.0], [5.0, 4.0]]), axis=1).tolist()
    [1, 0]
    """
    return _arg_extreme("argmax", x, axis, keepdims)


@with_numpys_arguments
def argmin(x, axis=None, keepdims=False):
    """The index of the smallest element of ``x`` along ``axis``, the first one for ties; integers, without gradient.

    >>> import tinyattn as ta
    >>> ta.argmin(ta.tensor([[1.0, 3.0], [5.0, 4.0]]), axis=1).tolist()
    [0, 1]
    """
    return _arg_extreme("argmin", x, axis, keepdims)


def _arg_extreme(name, x, axis, keepdims):
    array = (x if isinstance(x, Tensor) else Tensor(x))._data
    backend = backend_of(array)
    indices = getattr(backend.xp, name)(array, axis=axis, keepdims=keepdims)
    return Tensor._wrap(backend.asarray(indices))
