"""Host memory that a process has in common with those that are forked from it."""

import itertools
import weakref

import numpy as np

from .memory import anonymous

_numbers = itertools.count(1)
# By number; a forked process has those that were made before it.
_regions = weakref.WeakValueDictionary()


class _Region(np.ndarray):
    """Memory of this kind. A class of its own, so that NumPy keeps it as a base and does not look through it."""


def zeros(shape, dtype=np.float32):
    """Zeros that forked processes read and write in the same place.

    Returns:
        A plain, C-ordered ``np.ndarray``. Views of it keep the memory.

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
    """Whether ``array`` lies in memory that ``zeros`` gave."""
    return _region_of(array) is not None


def address(array):
    """What to tell a forked process of a shared array, for ``array_at``; None for any other array.

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
    """The array of which another process told the ``address``, in the same memory.

    Raises:
        RuntimeError: for memory that was made after this process.
    """
    if number not in _regions:
        raise RuntimeError(
            "this process does not have the memory of an array: it was forked before that was made"
        )
    return np.ndarray(shape, dtype, _regions[number], start, strides)


def _region_of(array):
    while array is not None:
        if type(array) is _Region:
            return array
        array = getattr(array, "base", None)
    return None
