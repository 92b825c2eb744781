"""Host memory that a process has in common with those that are forked from it."""

import mmap

import numpy as np


class _Shared(np.ndarray):
    """Memory of this kind. A class of its own, so that NumPy keeps it as a base and does not look through it."""

    __slots__ = ()


def zeros(shape, dtype=np.float32):
    """Zeros that forked processes read and write in the same place.

    Returns:
        A plain, C-ordered ``np.ndarray``. Views of it keep the memory.

    >>> is_shared(zeros((2, 3))), is_shared(np.zeros((2, 3)))
    (True, False)
    """
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    memory = mmap.mmap(-1, max(size, 1))
    if hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            memory.madvise(mmap.MADV_HUGEPAGE)
        except OSError:  # a kernel without them
            pass
    return np.ndarray(shape, dtype, _Shared((len(memory),), np.uint8, memory))


def is_shared(array):
    """Whether ``array`` lies in memory that ``zeros`` gave."""
    while array is not None:
        if isinstance(array, _Shared):
            return True
        array = getattr(array, "base", None)
    return False
