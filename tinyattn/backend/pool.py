"""A pool allocator for host arrays, which reuses freed memory instead of returning it to the operating system.

A training step allocates the same sizes every time. NumPy allocates arrays of more than a few MiB with ``mmap``, and
every new mapping causes page faults, which on a virtual machine can cost more than the arithmetic. Here a block
returns to a free list when its last view is garbage-collected, and the next request of its size reuses it. After the
first steps no memory is requested from the operating system.

Blocks are cut from arenas backed by huge pages (on Linux). A matrix product reads its operands across rows, and with
pages of 4 KiB, TLB misses take a tenth of the time of a training step.
"""

import functools
import math
import mmap
import threading
from collections import defaultdict

import numpy as np

from .memory import anonymous

SMALLEST_POOLED = 1 << 16  # bytes; for smaller arrays malloc is fast enough
ARENA_BYTES = 1 << 25
_PAGE = 1 << 12
_HUGE_PAGE = 1 << 21

_free_blocks = defaultdict(list)  # rounded size -> blocks; append and pop are atomic
_lock = threading.Lock()
_arena = None  # the arena that blocks are currently cut from, an array of bytes
_arena_used = 0
_pooled_bytes = 0  # size of all blocks, in use or free


class _Block(np.ndarray):
    """A part of an arena. A subclass, so that NumPy keeps it as the base of views instead of the arena."""

    __slots__ = ()


class _Lease(np.ndarray):
    """The owner of a block in use. It is the base of all views and is deleted after the last one."""

    __slots__ = ()

    def __del__(self):
        if _free_blocks is not None:  # None during interpreter shutdown
            _free_blocks[self.nbytes].append(self.base)


@functools.lru_cache(maxsize=1024)
def _rounded(nbytes):
    """Round ``nbytes`` up to one of eight size classes per power of two; at most an eighth is wasted."""
    step = max(1 << max(nbytes.bit_length() - 4, 0), _PAGE)
    return -(-nbytes // step) * step


def _cut(size):
    """Allocate a new block of ``size`` bytes."""
    global _arena, _arena_used, _pooled_bytes
    with _lock:
        _pooled_bytes += size
        if size > ARENA_BYTES // 4:
            return _from_system(size)[:size].view(_Block)
        if _arena is None or _arena_used + size > _arena.size:
            _arena, _arena_used = _from_system(ARENA_BYTES), 0
        block = _arena[_arena_used : _arena_used + size].view(_Block)
        _arena_used += size
        return block


def _from_system(size):
    """Allocate at least ``size`` bytes, aligned to a huge page."""
    if not hasattr(mmap, "MAP_PRIVATE"):
        return np.frombuffer(anonymous(size), np.uint8)
    size = -(-size // _HUGE_PAGE) * _HUGE_PAGE
    # MAP_PRIVATE: a forked process gets a copy-on-write copy.
    memory = anonymous(size + _HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    array = np.frombuffer(memory, np.uint8)
    start = -array.ctypes.data % _HUGE_PAGE
    return array[start : start + size]


def empty(shape, dtype=np.float32):
    """An uninitialized array with memory from the pool.

    Args:
        shape: an integer or a tuple of integers.
        dtype: a NumPy dtype other than object.

    Returns:
        A C-contiguous ``np.ndarray``. Views keep the memory alive; it returns to the pool after the last one.

    >>> array = empty((256, 256), np.float32)
    >>> address = array.ctypes.data
    >>> del array
    >>> empty((256, 256), np.float32).ctypes.data == address
    True
    """
    dtype = np.dtype(dtype)
    if isinstance(shape, int):
        shape = (shape,)
    nbytes = dtype.itemsize * math.prod(shape)
    if nbytes < SMALLEST_POOLED:
        return np.empty(shape, dtype)
    size = _rounded(nbytes)
    try:
        block = _free_blocks[size].pop()
    except IndexError:
        block = _cut(size)
    lease = _Lease((size,), np.uint8, block)
    return np.ndarray(shape, dtype, lease)


def empty_like(array):
    """``empty`` with the shape and dtype of ``array``."""
    return empty(array.shape, array.dtype)


def zeros(shape, dtype=np.float32):
    """An array of zeros with memory from the pool."""
    array = empty(shape, dtype)
    array.fill(0)
    return array


def pooled_bytes():
    """The size of the pool in bytes, in use or free."""
    return _pooled_bytes


def release():
    """Return all free blocks to the operating system.

    Returns:
        The number of bytes released.
    """
    global _pooled_bytes
    released = 0
    for size, blocks in list(_free_blocks.items()):
        while blocks:
            try:
                block = blocks.pop()
            except IndexError:  # another thread took the last one
                break
            _discard(block)
            released += size
    with _lock:
        _pooled_bytes -= released
    return released


def reset_after_fork():
    """Reset the pool after a fork, to avoid copy-on-write of the parent's blocks."""
    global _arena, _arena_used, _pooled_bytes, _lock
    _lock = threading.Lock()  # a thread of the parent may have held it during the fork
    _free_blocks.clear()
    _arena, _arena_used, _pooled_bytes = None, 0, 0


def _discard(block):
    """Release the pages of a block; its address range is freed with the arena, after the last of its blocks."""
    memory = block
    while isinstance(memory, np.ndarray):
        first = memory.ctypes.data
        memory = memory.base
    memory = getattr(memory, "obj", memory)  # the mmap behind NumPy's memoryview
    if hasattr(mmap, "MADV_DONTNEED"):
        memory.madvise(mmap.MADV_DONTNEED, block.ctypes.data - first, block.nbytes)
