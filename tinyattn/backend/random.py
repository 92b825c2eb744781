"""Random numbers: always drawn on the host, so that one seed means the same on every device."""

import contextlib
import contextvars

import numpy as np


class Random:
    """A stream of random numbers with a state that can be saved as JSON.

    The generator is NumPy's PCG64. What a device needs is drawn here and copied there: weights, batch order and
    sampled text are then identical on CPU and GPU.

    Args:
        seed: a whole number or a sequence of them; None takes one from the operating system.

    >>> Random(0).integers(100, size=3).tolist()
    [85, 63, 51]
    """

    def __init__(self, seed=None):
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def normal(self, mean=0.0, deviation=1.0, size=None):
        """Draws of the normal distribution, float64."""
        return self._generator.normal(mean, deviation, size)

    def uniform(self, low=0.0, high=1.0, size=None):
        """Draws of the uniform distribution on ``[low, high)``, float64."""
        return self._generator.uniform(low, high, size)

    def integers(self, low, high=None, size=None):
        """Whole numbers of ``[low, high)``, or of ``[0, low)`` if ``high`` is None."""
        return self._generator.integers(low, high, size)

    def permutation(self, count):
        """The numbers ``0 .. count - 1`` in random order."""
        return self._generator.permutation(count)

    def key(self):
        """A 64-bit key for counter-based random bits (see ``backend/counter.py``)."""
        return int(self._generator.integers(0, 2**64, dtype=np.uint64))

    @property
    def state(self):
        """The generator's state: a dict of strings and numbers that JSON can hold; assign it to restore it."""
        return self._generator.bit_generator.state

    @state.setter
    def state(self, state):
        self._generator.bit_generator.state = state


_current_random = contextvars.ContextVar("tinyattn_random", default=None)
_global_random = []  # filled at its first use: NumPy loads its generators only then


def default_random():
    """The stream that dropout and initialisation draw from."""
    random = _current_random.get()
    if random is None:
        if not _global_random:
            _global_random.append(Random())
        random = _global_random[0]
    return random


def manual_seed(seed):
    """Start the default stream again from ``seed`` and return it.

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
    """Draw from ``random`` inside a ``with`` block (each thread and each shard of a batch can have its own)."""
    token = _current_random.set(random)
    try:
        yield random
    finally:
        _current_random.reset(token)
