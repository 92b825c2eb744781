"""The interface between the checker and a framework: a function at one point, its values and its gradients.

Each framework has a subclass of ``Problem``. The checker uses a function through this interface only: it moves
elements of the working copies ``argument.array`` and calls ``values()`` and ``gradients(cotangents)``, which return
NumPy arrays.
"""

import contextlib
import itertools

import numpy as np

from .bits import same_bits
from .numeric import Line


class Argument:
    """One array whose gradient is checked.

    Attributes:
        start: the point, a NumPy array.
        array: the working copy, on the function's device, which the checker moves. Its elements do not overlap in
            memory (in a broadcast input, one element would move in several places). The order of the axes in memory
            is that of the input: a transposed input remains transposed.
        precision: the name of the dtype that the function receives. ``start`` has that dtype, or a wider one if NumPy
            has none, as for bfloat16.

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
        """Set the working copy to start + distance: one element (``place`` is its index), or all along a direction
        (``place`` is an array)."""
        if isinstance(place, tuple):
            self.array[place] = self.start[place] + distance
        else:
            self._move_along(place, distance)

    def restore(self, place=None):
        """Undo ``move``, bit for bit."""
        if isinstance(place, tuple):
            self.array[place] = self.start[place]
        else:
            self.array[...] = self._to_device(self.start)

    def unchanged(self):
        """Whether the working copy equals the start, bit for bit."""
        return same_bits(self._to_host(), self.start)

    def _move_along(self, direction, distance):
        array = self.array
        if (
            isinstance(array, np.ndarray)
            and array.dtype == np.float64
            and isinstance(distance, float)
        ):
            np.multiply(direction, distance, out=array)  # in place: no temporary arrays
            array += self.start
        else:
            array[...] = self._to_device(self.start + distance * direction)

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
        findings: the ``Finding``s of the adapter from running the function; see ``findings.py``.
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
            strided: pass inputs and cotangents of equal values that are not contiguous, if the framework supports it.
        """
        raise NotImplementedError

    def with_dtype(self, dtype):
        """The same function at a copy of the point in another dtype: a new problem."""
        raise NotImplementedError

    def second_order(self, cotangents):
        """The gradients as a function of arguments and cotangents: a problem with ``order`` 2."""
        raise ValueError(f"order=2 is not available for {self.name}: check it with order=1")

    def operations(self):
        """The names of the operations that the function runs; none if the framework does not report them."""
        return ()

    def culprit(self, cotangents):
        """The name of the first operation whose own gradient is wrong; None if that cannot be determined."""
        return None

    def running(self):
        """A context manager that is active during the whole check."""
        return contextlib.nullcontext()

    def undefined_memory(self):
        """A context manager in which uninitialized memory is NaN, if the framework allows it."""
        return contextlib.nullcontext()

    def line(self, argument, index, cotangents, base=None, errors=None):
        """The function of one element, a ``Line``, which documents ``base`` and ``errors``."""
        start = argument.start[index]

        def values(distance):
            argument.move(index, distance)
            try:
                return self.values()
            finally:
                argument.restore(index)

        def moved(distance):
            return float((start + distance) - start)

        return Line(values, cotangents, base, errors, moved=moved)

    def line_along(self, directions, cotangents, base=None, errors=None, moving=0.0):
        """The function along one direction for each argument, a ``Line``."""

        def values(distance):
            try:
                for argument, direction in zip(self.arguments, directions, strict=True):
                    argument.move(direction, distance)
                return self.values()
            finally:
                for argument in self.arguments:
                    argument.restore()

        return Line(values, cotangents, base, errors, moving)
