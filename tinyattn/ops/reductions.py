"""Reductions: many elements of the input make one element of the output."""

from ..autograd import primitive
from ..backend import array_namespace


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

    >>> reduced_axes((-1, 0), 3)
    (2, 0)
    """
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    return tuple(position + ndim if position < 0 else position for position in axes)


@primitive
def sum(x, /, axis=None, keepdims=False):
    """The sum of the elements of ``x`` along ``axis``.

    Backward. Each x_i enters its sum with the factor 1: the sum's cotangent goes to every element that was added.

    >>> import tinyattn as ta
    >>> ta.sum(ta.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    Tensor([4., 6.])
    """
    return array_namespace(x).sum(x, axis=axis, keepdims=keepdims)


@sum.vjp
def sum_vjp(g, _out, x, *, axis=None, keepdims=False):
    return array_namespace(g).broadcast_to(with_reduced_axes(g, x.shape, axis, keepdims), x.shape)
