"""Random numbers: always drawn on the host, so that a seed gives the same numbers on every device."""

import contextlib
import contextvars

import numpy as np


class Random:
    """A stream of random numbers with a JSON-compatible state.

    The generator is NumPy's PCG64. Numbers for a GPU are drawn on the host and copied: weights, batch order and sampled
    text are identical on CPU and GPU.

    Args:
        seed: an integer or a sequence of integers; None takes entropy from the operating system.

    >>> Random(0).integers(100, size=3).tolist()
    [85, 63, 51]
    """

    def __init__(self, seed=None):
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def normal(self, mean=0.0, deviation=1.0, size=None):
        """Samples of the normal distribution, float64."""
        return self._generator.normal(mean, deviation, size)

    def uniform(self, low=0.0, high=1.0, size=None):
        """Samples of the uniform distribution on ``[low, high)``, float64."""
        return self._generator.uniform(low, high, size)

    def integers(self, low, high=None, size=None):
        """Random integers in ``[low, high)``, or in ``[0, low)`` if ``high`` is None."""
        return self._generator.integers(low, high, size)

    def permutation(self, count):
        """A random permutation of ``0 .. count - 1``."""
        return self._generator.permutation(count)

    def key(self):
        """A 64-bit key for counter-based random bits (see ``backend/counter.py``)."""
        return int(self._generator.integers(0, 2**64, dtype=np.uint64))

    @property
    def state(self):
        """The state of the generator, a JSON-compatible dict; assign it to restore the state."""
        return self._generator.bit_generator.state

    @state.setter
    def state(self, state):
        self._generator.bit_generator.state = state


_current_random = contextvars.ContextVar("tinyattn_random", default=None)
_global_random = []  # filled on first use, because importing NumPy's generators takes time


def default_random():
    """The default random stream, which dropout and initialization use.

    >>> default_random() is default_random()
    True
    """
    random = _current_random.get()
    if random is None:
        if not _global_random:
            _global_random.append(Random())
        random = _global_random[0]
    return random


def manual_seed(seed):
    """Seed the default random stream and return it.

    >>> import tinyattn as ta
    >>> first = ta.manual_seed(1).normal()
    >>> ta.manual_seed(1).normal() == first
    True
    """
    random = default_random()
    random.state = Random(seed).state
    return random


@contextlib.contextmanager
def use_random(random):
    """Make ``random`` the default stream inside a ``with`` block, in this thread (a context variable).

    >>> with use_random(Random(3)) as random:
    ...     default_random() is random
    True
    """
    token = _current_random.set(random)
    try:
        yield random
    finally:
        _current_random.reset(token)
