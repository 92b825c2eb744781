"""A work queue of indices, shared by forked processes: each process takes the next index when it is free."""

import os
import weakref

import numpy as np


class IndexQueue:
    """A queue of the indices 0, 1, ..., each taken once, by this process or one forked from it.

    It is a pipe: a read of a few bytes is atomic, so that no two processes get the same index. The pipe is closed with
    this object.

    Attributes:
        capacity: largest number of indices; their bytes fit the smallest pipe buffer.

    >>> queue = IndexQueue()
    >>> queue.fill(3)
    >>> list(queue), list(queue)
    ([0, 1, 2], [])
    """

    capacity = 1024

    def __init__(self):
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        finalizer = weakref.finalize(self, _close, self._read_end, self._write_end)
        finalizer.atexit = False  # at exit, the operating system closes the pipe

    def fill(self, count):
        """Discard the remaining indices and add those below ``count``."""
        for _ in self:
            pass
        os.write(self._write_end, np.arange(count, dtype=np.uint32).tobytes())

    def __iter__(self):
        """Take indices until the queue is empty."""
        while True:
            try:
                taken = os.read(self._read_end, np.dtype(np.uint32).itemsize)
            except BlockingIOError:  # the pipe is empty
                return
            yield int(np.frombuffer(taken, np.uint32)[0])


def _close(*descriptors):
    for descriptor in descriptors:
        os.close(descriptor)
