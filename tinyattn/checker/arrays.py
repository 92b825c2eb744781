"""``ArrayProblem``: a function of NumPy arrays with a hand-written backward pass."""

import contextlib

import numpy as np

from .bits import same_bits
from .problem import Argument, Problem
from .report import Finding


class ArrayProblem(Problem):
    """``forward(*arrays)`` and ``backward(cotangent, *arrays)`` on NumPy arrays.

    Args:
        forward: returns an array, or a tuple or list of arrays.
        backward: returns one gradient, or a tuple or list with one for each array (None for an array without one).
            It gets the cotangent as ``forward`` returns its outputs: an array, or a tuple of arrays.
        arrays: the point. Arrays of integers and booleans, and other objects, are passed on and not checked.
        names: one for each of ``arrays``; ``inputs[0]`` and so on if not given.
        accumulates: whether ``backward(cotangent, *arrays, gradients)`` adds into the arrays of the list ``gradients``
            instead of returning gradients. They then start from random values, which must still be there afterwards.

    >>> square = ArrayProblem(lambda x: x * x, lambda g, x: 2 * g * x, [np.array([1.0, 3.0])])
    >>> square.values()[0].tolist(), square.gradients([np.ones(2)])[0].tolist()
    ([1.0, 9.0], [2.0, 6.0])
    """

    def __init__(self, forward, backward, arrays, names=None, accumulates=False):
        self._forward, self._backward, self._accumulates = forward, backward, accumulates
        names = names or [f"inputs[{position}]" for position in range(len(arrays))]
        self._passed = [
            Argument(name, array) if _is_floating(array) else array
            for name, array in zip(names, arrays, strict=True)
        ]
        super().__init__([entry for entry in self._passed if isinstance(entry, Argument)])
        self.name = getattr(forward, "__name__", type(forward).__name__)
        self._names = names
        self._is_single = True

    def values(self):
        self.evaluations += 1
        result = self._forward(*self._arrays())
        self._is_single = not isinstance(result, (tuple, list))
        return [np.asarray(value) for value in ([result] if self._is_single else result)]

    def gradients(self, cotangents, strided=False):
        layout = strided_copy if strided else np.copy
        before = self._arrays()
        arrays = [layout(a) if isinstance(a, np.ndarray) else a for a in before]
        passed = [layout(cotangent) for cotangent in cotangents]
        given = passed[0] if self._is_single else tuple(passed)
        if self._accumulates:
            gradients = self._added(given, arrays)
        else:
            result = self._backward(given, *arrays)
            gradients = list(result) if isinstance(result, (tuple, list)) else [result]
        self._inspect(gradients, passed, cotangents, arrays, before)
        return self._of_arguments(gradients)

    def with_dtype(self, dtype):
        arrays = [
            entry.start.astype(dtype) if isinstance(entry, Argument) else entry
            for entry in self._passed
        ]
        return ArrayProblem(self._forward, self._backward, arrays, self._names, self._accumulates)

    @contextlib.contextmanager
    def undefined_memory(self):
        with poisoned_empty():
            yield

    def _arrays(self):
        return [entry.array if isinstance(entry, Argument) else entry for entry in self._passed]

    def _added(self, cotangent, arrays):
        """The gradients that ``backward`` adds to arrays of zeros.

        A second call, with arrays of random numbers, finds a ``backward`` that overwrites them or depends on them.
        """
        random = np.random.default_rng(0)
        initial = [
            random.integers(1, 8, argument.shape).astype(argument.start.dtype)
            for argument in self.arguments
        ]
        accumulated = [array.copy() for array in initial]
        self._backward(cotangent, *arrays, accumulated)
        zeros = [np.zeros_like(array) for array in initial]
        self._backward(cotangent, *arrays, zeros)
        for argument, start, one, other in zip(
            self.arguments, initial, accumulated, zeros, strict=True
        ):
            if np.any(other) and np.array_equal(one, other):
                self._find(
                    "overwrites a gradient",
                    argument.name,
                    f"the values in the gradient of {argument.name} before the call are lost: add to them",
                )
            elif not np.allclose(one - start, other, rtol=1e-6, atol=1e-6, equal_nan=True):
                self._find(
                    "keeps state",
                    argument.name,
                    f"the gradient added to that of {argument.name} depends on its values before the call",
                )
        return zeros

    def _inspect(self, gradients, passed, cotangents, arrays, before):
        for entry, array, original in zip(self._passed, arrays, before, strict=True):
            if isinstance(entry, Argument) and not same_bits(array, original):
                text = f"the backward pass overwrites {entry.name}"
                self._find("changes its inputs", entry.name, text)
        for array, original in zip(passed, cotangents, strict=True):
            if not same_bits(array, original):
                text = "the backward pass overwrites the cotangent, which the caller may still need"
                self._find("changes its cotangent", None, text)
        for position, gradient in enumerate(gradients):
            if isinstance(gradient, np.ndarray) and any(
                np.shares_memory(gradient, p) for p in passed
            ):
                text = f"gradient {position} shares memory with the cotangent: adding into one changes the other"
                self._find("aliases its cotangent", None, text, is_error=False)

    def _find(self, kind, argument, text, is_error=True):
        if not any((f.kind, f.argument) == (kind, argument) for f in self.findings):
            self.findings.append(Finding(kind, argument, text, is_error))

    def _of_arguments(self, gradients):
        """The gradients of the checked arrays, from a list with one for each of them or one for each array."""
        if len(gradients) == len(self._passed):
            pairs = zip(self._passed, gradients, strict=True)
            gradients = [gradient for entry, gradient in pairs if isinstance(entry, Argument)]
        if len(gradients) != len(self.arguments):
            raise TypeError(
                f"the backward pass of {self.name} returned {len(gradients)} gradients, "
                f"expected {len(self.arguments)}: one for each array"
            )
        return [None if gradient is None else np.asarray(gradient) for gradient in gradients]


def _is_floating(value):
    if not isinstance(value, (np.ndarray, np.generic)):
        return False
    return value.dtype.kind in "fc" or value.dtype.name == "bfloat16"


def strided_copy(array):
    """A copy of ``array`` that is not contiguous: every second element of a buffer.

    >>> strided_copy(np.arange(6.0).reshape(2, 3)).strides
    (48, 16)
    """
    if array.ndim == 0:
        return array.copy()
    buffer = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    view = buffer[..., ::2]
    view[...] = array
    return view


@contextlib.contextmanager
def poisoned_empty():
    """``np.empty`` and ``np.empty_like`` return floating-point arrays of NaN inside the block."""
    empty, empty_like = np.empty, np.empty_like

    def poison(array):
        if array.dtype.kind in "fc":
            array.fill(np.nan)
        return array

    try:
        np.empty = lambda *args, **kwargs: poison(empty(*args, **kwargs))
        np.empty_like = lambda *args, **kwargs: poison(empty_like(*args, **kwargs))
        yield
    finally:
        np.empty, np.empty_like = empty, empty_like
