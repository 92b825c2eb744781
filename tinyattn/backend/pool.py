"""Host memory that is used again instead of being given back to the operating system.

A training step asks for the same sizes every time. Arrays of more than a few MiB come from ``mmap``, and each time
every page of theirs faults again: on a virtual machine that alone can cost more than the arithmetic. Here a block
returns to a free list when the last view of it dies, and the next request of its size takes it from there. After
the first steps nothing is asked of the operating system any more.

Blocks are cut from arenas that Linux is asked to back with huge pages. A matrix product reads its operands across
rows, and with pages of 4 KiB the processor spends a tenth of a training step on looking up addresses.
"""

import functools
import math
import mmap
import threading
from collections import defaultdict

import numpy as np

from .memory import anonymous

SMALLEST_POOLED = 1 << 16  # bytes; below, the C library's own free lists do well
ARENA_BYTES = 1 << 25
_PAGE = 1 << 12
_HUGE_PAGE = 1 << 21

_free_blocks = defaultdict(list)  # rounded size -> blocks; append and pop are atomic
_lock = threading.Lock()
_arena = None  # the one that blocks are being cut from, as an array of bytes
_arena_used = 0
_pooled_bytes = 0  # blocks that were ever cut and not released


class _Block(np.ndarray):
    """A piece of an arena. A class of its own, so that NumPy keeps it as a base and does not look through it."""

    __slots__ = ()


class _Lease(np.ndarray):
    """The owner of a block while views of it live: as the base of every view it dies after the last one."""

    __slots__ = ()

    def __del__(self):
        if _free_blocks is not None:  # None while the interpreter shuts down
            _free_blocks[self.nbytes].append(self.base)


@functools.lru_cache(maxsize=1024)
def _rounded(nbytes):
    """``nbytes`` rounded up to one of eight sizes per power of two: at most an eighth is wasted."""
    step = max(1 << max(nbytes.bit_length() - 4, 0), _PAGE)
    return -(-nbytes // step) * step


def _cut(size):
    """A new block of ``size`` bytes."""
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
    """At least ``size`` bytes that begin at a huge page."""
    if not hasattr(mmap, "MAP_PRIVATE"):
        return np.frombuffer(anonymous(size), np.uint8)
    size = -(-size // _HUGE_PAGE) * _HUGE_PAGE
    # Private: a forked process gets a copy and does not write into ours.
    memory = anonymous(size + _HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    array = np.frombuffer(memory, np.uint8)
    start = -array.ctypes.data % _HUGE_PAGE
    return array[start : start + size]


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
    """``empty`` with the shape and data type of ``array``."""
    return empty(array.shape, array.dtype)


def zeros(shape, dtype=np.float32):
    """``empty`` filled with zeros: for what lives long and is read often, such as parameters."""
    array = empty(shape, dtype)
    array.fill(0)
    return array


def pooled_bytes():
    """How many bytes the pool holds, in use or free."""
    return _pooled_bytes


def release():
    """Give all free blocks back to the operating system; blocks in use are not touched.

    Returns:
        The number of bytes given back.
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


def forget():
    """Reset the pool after a fork, to avoid copy-on-write of the parent's blocks."""
    global _arena, _arena_used, _pooled_bytes, _lock
    _lock = threading.Lock()  # a thread that does not exist here may have held it
    _free_blocks.clear()
    _arena, _arena_used, _pooled_bytes = None, 0, 0


def _discard(block):
    """Let the pages of a block go; its addresses go with the arena, once none of its blocks is left."""
    memory = block
    while isinstance(memory, np.ndarray):
        first = memory.ctypes.data
        memory = memory.base
    memory = getattr(memory, "obj", memory)  # of the memoryview that NumPy holds
    if hasattr(mmap, "MADV_DONTNEED"):
        memory.madvise(mmap.MADV_DONTNEED, block.ctypes.data - first, block.nbytes)
