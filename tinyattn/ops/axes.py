"""Axes of reductions: which ones are reduced, and how many elements each result combines."""

import math

from numpy.lib.array_utils import normalize_axis_tuple

from ..backend import array_namespace


def reduced_axes(axis, ndim):
    """The axes that ``axis`` (None, a number, or several) denotes, as a tuple of non-negative numbers.

    As in NumPy's reductions, the axis of a scalar may be 0 or -1, and there is none to reduce.

    >>> reduced_axes((-1, 0), 3), reduced_axes(-1, 0)
    ((2, 0), ())
    """
    if ndim == 0 and axis in (0, -1):
        return ()
    return tuple(range(ndim)) if axis is None else normalize_axis_tuple(axis, ndim, "axis")


def reduced_count(shape, axis):
    """The number of elements of an array of ``shape`` that a reduction along ``axis`` combines.

    >>> reduced_count((2, 3, 4), (0, -1))
    8
    """
    return math.prod(shape[position] for position in reduced_axes(axis, len(shape)))


def with_reduced_axes(array, shape, axis, keepdims):
    """Restore the reduced axes of ``array``, a reduction of ``shape`` along ``axis``, with length 1.

    >>> import numpy as np
    >>> with_reduced_axes(np.ones(2), (2, 3), axis=-1, keepdims=False).shape
    (2, 1)
    """
    if keepdims:
        return array
    axes = reduced_axes(axis, len(shape))
    kept = tuple(1 if position in axes else length for position, length in enumerate(shape))
    return array_namespace(array).reshape(array, kept)
