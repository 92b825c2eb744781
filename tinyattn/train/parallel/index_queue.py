"""A work queue of indices that forked processes share: each takes the next one when it is free."""

import os
import weakref

import numpy as np


class IndexQueue:
    """A queue of the indices 0, 1, ..., each taken once, by this process or one forked from it.

    Implemented as a pipe: reading a few bytes from it is atomic. The pipe is closed with this object.

    Attributes:
        capacity: largest number of indices, which fit the smallest pipe buffer.

    >>> queue = IndexQueue()
    >>> queue.fill(3)
    >>> list(queue), list(queue)
    ([0, 1, 2], [])
    """

    capacity = 1024

    def __init__(self):
        self._out, self._in = os.pipe()
        os.set_blocking(self._out, False)
        weakref.finalize(self, _close, self._out, self._in).atexit = False

    def fill(self, count):
        """Discard the remaining indices and add those below ``count``."""
        for _ in self:
            pass
        os.write(self._in, np.arange(count, dtype=np.uint32).tobytes())

    def __iter__(self):
        """Take indices until the queue is empty."""
        while True:
            try:
                taken = os.read(self._out, np.dtype(np.uint32).itemsize)
            except BlockingIOError:  # the pipe is empty
                return
            yield int(np.frombuffer(taken, np.uint32)[0])


def _close(*descriptors):
    for descriptor in descriptors:
        os.close(descriptor)
