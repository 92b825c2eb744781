"""Host memory that is used again instead of being given back to the operating system.

A training step asks for the same sizes every time. Arrays of more than a few MiB come from ``mmap``, and each time
every page of theirs faults again: on a virtual machine that alone can cost more than the arithmetic. Here a block
returns to a free list when the last view of it dies, and the next request of its size takes it from there. After
the first steps nothing is asked of the operating system any more.
"""

import mmap
from collections import defaultdict

import numpy as np

SMALLEST_POOLED = 1 << 16  # bytes; below, the C library's own free lists do well
_ALIGNMENT = 1 << 12

_free_blocks = defaultdict(list)  # rounded size -> memory maps; append and pop are atomic
_pooled_bytes = [0]  # what was ever asked of the operating system and not released


class _Lease(np.ndarray):
    """The owner of a pooled block while views of it live: as the base of every view it dies after the last one."""

    __slots__ = ()

    def __del__(self):
        memory = self.base
        if memory is not None and _free_blocks is not None:  # None while the interpreter shuts down
            _free_blocks[self.nbytes].append(memory)


def _rounded(nbytes):
    """``nbytes`` rounded up to one of eight sizes per power of two: at most an eighth is wasted."""
    step = max(1 << max(nbytes.bit_length() - 4, 0), _ALIGNMENT)
    return -(-nbytes // step) * step


def _from_system(size):
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size)
    # Private: a forked process gets a copy and does not write into ours.
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def empty(shape, dtype=np.float32):
    """An array of undefined content whose memory comes from the pool and goes back to it.

    Args:
        shape: a whole number or a tuple of them.
        dtype: a NumPy data type without Python objects.

    Returns:
        A plain, C-ordered ``np.ndarray``. Views of it keep the memory; it is free again when the last one is gone.

    >>> array = empty((256, 256), np.float32)
    >>> address = array.ctypes.data
    >>> del array
    >>> empty((256, 256), np.float32).ctypes.data == address
    True
    """
    dtype = np.dtype(dtype)
    if isinstance(shape, int):
        shape = (shape,)
    nbytes = dtype.itemsize
    for length in shape:
        nbytes *= length
    if nbytes < SMALLEST_POOLED:
        return np.empty(shape, dtype)
    size = _rounded(nbytes)
    try:
        memory = _free_blocks[size].pop()
    except IndexError:
        memory = _from_system(size)
        _pooled_bytes[0] += size
    lease = _Lease((size,), np.uint8, memory)
    return np.ndarray(shape, dtype, lease)


def empty_like(array):
    """``empty`` with the shape and data type of ``array``."""
    return empty(array.shape, array.dtype)


def pooled_bytes():
    """How many bytes the pool holds, in use or free."""
    return _pooled_bytes[0]


def release():
    """Give all free blocks back to the operating system; blocks in use are not touched.

    Returns:
        The number of bytes given back.
    """
    released = 0
    for size, blocks in list(_free_blocks.items()):
        while blocks:
            try:
                memory = blocks.pop()
            except IndexError:  # another thread took the last one
                break
            memory.close()
            released += size
    _pooled_bytes[0] -= released
    return released
