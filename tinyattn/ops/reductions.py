"""Reductions: many elements of the input make one element of the output."""

import math

from ..autograd import Tensor, primitive
from ..autograd.pytorch_names import with_numpys_arguments
from ..backend import array_namespace, backend_of
from .conversion import at_least_float32, in_dtype_of, wide_floats
from .shape import normalised_axes


def with_reduced_axes(array, shape, axis, keepdims):
    """``array``, the result of a reduction of ``shape`` along ``axis``, with the reduced axes back as axes of length 1.

    >>> import numpy as np
    >>> with_reduced_axes(np.ones(2), (2, 3), axis=-1, keepdims=False).shape
    (2, 1)
    """
    if keepdims:
        return array
    axes = reduced_axes(axis, len(shape))
    kept = tuple(1 if position in axes else length for position, length in enumerate(shape))
    return array_namespace(array).reshape(array, kept)


def reduced_axes(axis, ndim):
    """The axes that ``axis`` (None, a number, or several) means, as a tuple of numbers from 0.

    A single number counts as a row of one: as in NumPy's reductions, its axis is 0 or -1, and there is none to reduce.

    >>> reduced_axes((-1, 0), 3), reduced_axes(-1, 0)
    ((2, 0), ())
    """
    if ndim == 0 and axis in (0, -1):
        return ()
    return tuple(range(ndim)) if axis is None else tuple(normalised_axes(axis, ndim))


def reduced_count(shape, axis):
    """How many elements of an array of ``shape`` a reduction along ``axis`` takes together.

    >>> reduced_count((2, 3, 4), (0, -1))
    8
    """
    return math.prod(shape[position] for position in reduced_axes(axis, len(shape)))


@primitive
def sum(x, /, axis=None, keepdims=False):
    """The sum of the elements of ``x`` along ``axis``.

    Args:
        axis: one axis, several, or None for all. ``()`` sums over none, and gives back the elements.
        keepdims: leave the axes that were summed over in place, with length 1.

    Backward. Each x_i enters its sum with the factor 1: the sum's cotangent goes to every element that was added.

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
    """The mean of the elements of ``x`` along ``axis``; NaN of no elements.

    Backward. Each of the n elements enters with the factor 1/n.

    >>> import tinyattn as ta
    >>> ta.mean(ta.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    Tensor([2., 3.])
    """
    total = array_namespace(x).sum(at_least_float32(x), axis=axis, keepdims=keepdims)
    return in_dtype_of(x, total / reduced_count(x.shape, axis))


@mean.vjp
def mean_vjp(g, _out, _x, *, axis=None, keepdims=False):
    g = at_least_float32(g)  # a count may be beyond float16
    g = with_reduced_axes(g, _x.shape, axis, keepdims) / reduced_count(_x.shape, axis)
    return array_namespace(g).broadcast_to(g, _x.shape)


@primitive
def var(x, /, axis=None, ddof=0, keepdims=False):
    """The variance of the elements of ``x`` along ``axis``: sum_i (x_i - mean)^2 / (n - ddof).

    Args:
        ddof: 0 for the variance of these n elements, 1 for the unbiased estimate of what they are a sample of.

    Backward. Let c_i = x_i - mean. Then d/dx_j sum_i c_i^2 = sum_i 2 c_i (delta_ij - 1/n) = 2 c_j, because the c_i add
    up to 0: the mean moves too, but at its minimum the sum of squares does not notice. So dx_j = 2 g c_j / (n - ddof).

    >>> import tinyattn as ta
    >>> ta.var(ta.tensor([[1.0, 3.0], [2.0, 2.0]]), axis=1)
    Tensor([1., 0.])
    """
    c = centred(wide_floats(x), axis)
    squares = array_namespace(x).sum(c * c, axis=axis, keepdims=keepdims)
    return in_dtype_of(x, squares / _degrees_of_freedom(x, axis, ddof))


@var.vjp
def var_vjp(g, _out, x, *, axis=None, ddof=0, keepdims=False):
    g = with_reduced_axes(at_least_float32(g), x.shape, axis, keepdims)
    return 2 * g / _degrees_of_freedom(x, axis, ddof) * centred(wide_floats(x), axis)


@primitive
def std(x, /, axis=None, ddof=0, keepdims=False):
    """The standard deviation of the elements of ``x`` along ``axis``: the square root of ``var``.

    Backward. y = sqrt(v) has dy = dv / (2y), and dv/dx_j = 2 c_j / (n - ddof) as in ``var``, so
        dx_j = g c_j / ((n - ddof) y).
    Where all elements are equal, every c_j and y are 0 and there is no derivative; 0 is taken, a subgradient.

    The squares are taken of elements over the largest, as those of large and small numbers leave the number format.

    >>> import tinyattn as ta
    >>> ta.std(ta.tensor([[1.0, 3.0], [2.0, 2.0]]), axis=1)
    Tensor([1., 0.])
    """
    xp = array_namespace(x)
    c = centred(wide_floats(x), axis)
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
    return g / _degrees_of_freedom(x, axis, ddof) * (centred(wide_floats(x), axis) * inverse)


def centred(x, axis):
    """``x`` less its mean along ``axis``: exactly 0 where all elements are equal.

    Computed from x less its first element, which changes nothing in exact arithmetic. In floating point the mean of
    equal elements need not be equal to them; and the sum of large numbers that differ little loses their differences.

    >>> import numpy as np
    >>> centred(np.array([0.1, 0.1, 0.1]), -1)
    array([0., 0., 0.])
    """
    axes = reduced_axes(axis, x.ndim)
    first = tuple(slice(0, 1) if position in axes else slice(None) for position in range(x.ndim))
    constant = getattr(x, "_data", x)[
        first
    ]  # what is subtracted has no influence, so it needs no gradient
    shifted = x - constant
    return shifted - mean.rule(shifted, axis=axis, keepdims=True)


def magnitude(x, axis):
    """The largest absolute value of ``x`` along ``axis``, or 1 where all are 0; the axes stay, with length 1.

    A scale that cancels, so that it needs no gradient: of numbers divided by it the squares are at most 1.

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

    Backward. dy/dx_i is the product of the *other* elements. Computed as y / x_i it would be 0/0 at a zero; here it is
    the product of those before i times the product of those after i, exact with any number of zeros.

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
    order = tuple(i for i in range(x.ndim) if i not in axes) + axes
    rows = xp.transpose(x, order)
    moved_shape = rows.shape
    kept = moved_shape[: x.ndim - len(axes)]
    rows = xp.reshape(
        rows, (*kept, reduced_count(x.shape, axis))
    )  # what is multiplied, in the last axis
    others = products_before(rows) * xp.flip(products_before(xp.flip(rows, -1)), -1)
    others = xp.transpose(
        xp.reshape(others, moved_shape), tuple(order.index(i) for i in range(x.ndim))
    )
    return with_reduced_axes(g, x.shape, axis, keepdims) * others


def products_before(x):
    """For each element along the last axis the product of those before it.

    In the first round each element gets its neighbour, then the product of two, of four, ...: log2(n) rounds, each of
    them one multiplication of arrays.

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

    Backward. The cotangent goes to the largest element. Where several are equally large every way to split it is a
    subgradient; each gets the same share.

    >>> import tinyattn as ta
    >>> x = ta.tensor([1.0, 3.0, 3.0], requires_grad=True)
    >>> ta.max(x).backward()
    >>> x.grad
    Tensor([0. , 0.5, 0.5])
    """
    return array_namespace(x).max(x, axis=axis, keepdims=keepdims)


@max.vjp
def max_vjp(g, y, x, *, axis=None, keepdims=False):
    return _to_the_selected(g, y, x, axis, keepdims)


@primitive
def min(x, /, axis=None, keepdims=False):
    """The smallest element of ``x`` along ``axis``; NaN if one of them is NaN.

    Raises:
        ValueError: if there are no elements.

    Backward. As for ``max``: to the smallest element, in equal shares where there are several.

    >>> import tinyattn as ta
    >>> ta.min(ta.tensor([[1.0, 3.0], [5.0, 4.0]]), axis=1)
    Tensor([1., 4.])
    """
    return array_namespace(x).min(x, axis=axis, keepdims=keepdims)


@min.vjp
def min_vjp(g, y, x, *, axis=None, keepdims=False):
    return _to_the_selected(g, y, x, axis, keepdims)


def _to_the_selected(g, y, x, axis, keepdims):
    g = with_reduced_axes(at_least_float32(g), x.shape, axis, keepdims)
    y = with_reduced_axes(y, x.shape, axis, keepdims)
    selected = (x == y) | (x != x)  # a NaN is selected wherever there is one
    count = array_namespace(selected).sum(selected, axis=axis, keepdims=True, dtype=g.dtype)
    return array_namespace(g).where(selected, g / count, 0)


@primitive
def cumsum(x, /, axis=None):
    """The sums of the elements of ``x`` up to and with each one, along ``axis``; None takes all in one row.

    Backward. y_i = sum_{j <= i} x_j, so dx_j = sum_{i >= j} g_i: the cotangents are summed from the end.

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
    """Where the largest element of ``x`` along ``axis`` stands, the first if there are several: whole numbers.

    A step function of ``x``: it has no gradient.

    >>> import tinyattn as ta
    >>> ta.argmax(ta.tensor([[1.0, 3.0], [5.0, 4.0]]), axis=1).tolist()
    [1, 0]
    """
    return _positions("argmax", x, axis, keepdims)


@with_numpys_arguments
def argmin(x, axis=None, keepdims=False):
    """Where the smallest element of ``x`` along ``axis`` stands, the first if there are several: whole numbers.

    >>> import tinyattn as ta
    >>> ta.argmin(ta.tensor([[1.0, 3.0], [5.0, 4.0]]), axis=1).tolist()
    [0, 1]
    """
    return _positions("argmin", x, axis, keepdims)


def _positions(name, x, axis, keepdims):
    array = (x if isinstance(x, Tensor) else Tensor(x))._data
    backend = backend_of(array)
    found = getattr(backend.xp, name)(array, axis=axis, keepdims=keepdims)
    return Tensor._wrap(backend.asarray(found))
