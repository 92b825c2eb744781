"""What the checker knows of a function: its arguments at one point, its values and its gradients there.

A framework is connected by a subclass of ``Problem``, in a module of its own. Everything that the checker does, it does
through this interface: it moves elements of the working copies ``argument.array`` and asks for ``values()`` and
``gradients(cotangents)``, as NumPy arrays.
"""

import contextlib
import itertools

import numpy as np

from .numeric import Line


class Argument:
    """One array whose gradient is checked.

    ``start`` is the point, a NumPy array. ``array`` is the working copy, which the checker moves. Its elements do not
    overlap in memory (in an expanded input one element would move in several places), but the order of its axes is
    kept, so that a transposed input stays so. ``precision`` is the name of the dtype that the function gets: that of
    ``start``, unless NumPy has no such dtype, as for bfloat16, and ``start`` is wider.

    >>> argument = Argument("x", np.array([1.0, 2.0]))
    >>> argument.move((1,), 0.5)
    >>> argument.array.tolist(), argument.start.tolist()
    ([1.0, 2.5], [1.0, 2.0])
    """

    def __init__(self, name, values, dtype=None, precision=None):
        self.name = name
        self.start = np.array(values, dtype=dtype, order="K")
        self.precision = precision or self.start.dtype.name
        self.array = self.start.copy(order="K")

    @property
    def shape(self):
        return self.start.shape

    def indices(self):
        return itertools.product(*map(range, self.start.shape))

    def move(self, place, distance):
        """Move to a distance from the start: one element (an index as ``place``), or all along a direction."""
        if isinstance(place, tuple):
            self.array[place] = self.start[place] + distance
        else:
            self.array[...] = self._to_device(self.start + distance * place)

    def restore(self, place=None):
        """Undo ``move``, bit for bit."""
        if isinstance(place, tuple):
            self.array[place] = self.start[place]
        else:
            self.array[...] = self._to_device(self.start.copy())

    def unchanged(self):
        """Whether the working copy still holds the start."""
        held = self._to_host()
        return held.shape == self.start.shape and held.tobytes() == self.start.tobytes()

    def _to_device(self, values):
        return values

    def _to_host(self):
        return self.array


class Problem:
    """A differentiable function at one point; the base class of the adapters for frameworks.

    Attributes:
        name: the function's name, as messages show it.
        call: the text of the call that reproduces the check.
        order: 1, or 2 for a function that is itself a gradient.
        arguments: the ``Argument``s, in the order of the gradients.
        evaluations: how often the function was called.
        findings: ``Finding``s that the adapter made while it ran the function; see ``result``.
    """

    name = "function"
    call = ""
    order = 1

    def __init__(self, arguments):
        self.arguments = arguments
        self.evaluations = 0
        self.findings = []

    def values(self):
        """The floating-point outputs at ``argument.array``: a list of NumPy arrays, in a fixed order."""
        raise NotImplementedError

    def gradients(self, cotangents, strided=False):
        """The gradient of sum(c * y) for each argument, as the backward pass returns it; None if there is none.

        Args:
            cotangents: one NumPy array for each output.
            strided: pass inputs and cotangents that are equal in value but not contiguous, if the framework has such.
        """
        raise NotImplementedError

    def with_dtype(self, dtype):
        """The same function at a copy of the point in another dtype: a new problem."""
        raise NotImplementedError

    def second_order(self, cotangents):
        """The gradients as a function of arguments and cotangents: a problem with ``order`` 2."""
        raise ValueError(f"order=2 is not available for {self.name}: check it with order=1")

    def operations(self):
        """The names of the operations that the function runs, where the framework tells."""
        return ()

    def culprit(self, cotangents):
        """The name of the first operation whose own gradient is wrong, where the framework can tell; else None."""
        return None

    def running(self):
        """A context manager that is active during the whole check."""
        return contextlib.nullcontext()

    def undefined_memory(self):
        """A context manager in which memory that was allocated but not written holds NaN, if that can be arranged."""
        return contextlib.nullcontext()

    def line(self, argument, index, cotangents, base=None, noise=None):
        """The values as one element moves, as a ``Line``.

        ``base`` and ``noise`` are the values at the point and their rounding errors, where they are known.
        """
        start = argument.start[index]

        def values(distance):
            argument.move(index, distance)
            try:
                return self.values()
            finally:
                argument.restore(index)

        def moved(distance):
            return float((start + distance) - start)

        return Line(values, cotangents, base, noise, moved=moved)

    def line_along(self, directions, cotangents, base=None, noise=None, moving=0.0):
        """The values as all arguments move, each along its direction, as a ``Line``; see there for ``moving``."""

        def values(distance):
            try:
                for argument, direction in zip(self.arguments, directions, strict=True):
                    argument.move(direction, distance)
                return self.values()
            finally:
                for argument in self.arguments:
                    argument.restore()

        return Line(values, cotangents, base, noise, moving)
