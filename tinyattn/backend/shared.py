"""Shared memory: arrays that a process and its forked child processes read and write."""

import itertools
import weakref

import numpy as np

from .memory import anonymous

_numbers = itertools.count(1)
# By number; a forked process has the regions that were allocated before the fork.
_regions = weakref.WeakValueDictionary()


class _Region(np.ndarray):
    """Shared memory. A subclass, so that NumPy keeps it as the base of views instead of its own base."""


def zeros(shape, dtype=np.float32):
    """An array of zeros in shared memory.

    Returns:
        A C-contiguous ``np.ndarray``. Views keep the memory alive.

    >>> is_shared(zeros((2, 3))), is_shared(np.zeros((2, 3)))
    (True, False)
    """
    dtype = np.dtype(dtype)
    memory = anonymous(max(int(np.prod(shape)) * dtype.itemsize, 1))
    region = _Region((len(memory),), np.uint8, memory)
    region.number = next(_numbers)
    _regions[region.number] = region
    return np.ndarray(shape, dtype, region)


def is_shared(array):
    """Whether ``array`` is in shared memory allocated by ``zeros``."""
    return _region_of(array) is not None


def address(array):
    """The address of a shared array, arguments of ``array_at`` in a forked process; None for any other array.

    >>> array = zeros((2, 3))
    >>> array_at(*address(array[:, 1]))[...] = 1
    >>> array.tolist()
    [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
    """
    region = _region_of(array)
    if region is None:
        return None
    start = array.__array_interface__["data"][0] - region.__array_interface__["data"][0]
    return region.number, start, array.shape, array.strides, array.dtype.str


def array_at(number, start, shape, strides, dtype):
    """The array at an ``address`` from another process, in the same memory.

    Raises:
        RuntimeError: for memory that was allocated after this process was forked.
    """
    if number not in _regions:
        raise RuntimeError(
            "cannot access shared memory that was allocated after this process was forked"
        )
    return np.ndarray(shape, dtype, _regions[number], start, strides)


def _region_of(array):
    while array is not None:
        if type(array) is _Region:
            return array
        array = getattr(array, "base", None)
    return None
