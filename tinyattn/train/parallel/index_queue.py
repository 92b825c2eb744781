"""Numbers that forked processes take one after the other, so that each gets more work as it becomes free."""

import os
import weakref

import numpy as np


class Turns:
    """The numbers 0, 1, ..., shared out among this process and those forked from it: each is taken once.

    They wait in a pipe, for reading a few bytes from one is a single step for all who read.

    Attributes:
        most: how many numbers there can be: they fit the smallest pipe.
        close: gives the pipe back, at the latest when this object is gone.

    >>> turns = Turns()
    >>> turns.deal(3)
    >>> list(turns), list(turns)
    ([0, 1, 2], [])
    >>> turns.close()
    """

    most = 1024

    def __init__(self):
        self._out, self._in = os.pipe()
        os.set_blocking(self._out, False)
        self.close = weakref.finalize(self, _close, self._out, self._in)
        self.close.atexit = False

    def __getstate__(self):
        """For a forked process, which has the same pipe; closing it is for the one who made it."""
        return {"_out": self._out, "_in": self._in}

    def deal(self, count):
        """Begin again with the numbers below ``count``; those that nobody took are forgotten."""
        for _ in self:
            pass
        os.write(self._in, np.arange(count, dtype=np.uint32).tobytes())

    def __iter__(self):
        """Take numbers while there are any."""
        while True:
            try:
                taken = os.read(self._out, np.dtype(np.uint32).itemsize)
            except BlockingIOError:  # the pipe is empty
                return
            yield int(np.frombuffer(taken, np.uint32)[0])


def _close(*descriptors):
    for descriptor in descriptors:
        os.close(descriptor)
