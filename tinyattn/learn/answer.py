"""A learner's function as the backward pass of a primitive."""

import inspect
import threading

import numpy as np

from ..autograd import PRIMITIVES, Tensor
from ..backend import is_array


class AnswerError(Exception):
    """A learner's function has a wrong signature, or returned something unusable; the message is for the learner."""


class Answer:
    """A learner's function ``(g, out, *inputs, **parameters)`` as the vector-Jacobian products of a primitive.

    The function receives copies, so that it cannot change the engine's arrays. A parameter that it does not accept is
    omitted if it has the primitive's default value.

    Args:
        function: returns one gradient, or a tuple of them in the order of the inputs.
        primitive: the name of the operation.

    >>> answer = Answer(lambda g, out, x: g * 2 * x, "square")
    >>> answer.gradients(np.ones(2), None, [np.array([1.0, 2.0])], {})
    (array([2., 4.]),)
    """

    def __init__(self, function, primitive):
        self.function = function
        self.name = getattr(function, "__name__", "the function")
        self.primitive = PRIMITIVES[primitive]
        self.positions = tuple(sorted(self.primitive.vjps))
        self._last = threading.local()

    def gradients(self, g, out, inputs, parameters):
        """The gradients, one per input; None for an input without gradient.

        Raises:
            AnswerError: for a return value of the wrong form.
        """
        self._check_signature(len(inputs))
        result = self.function(
            _copy(g), _copy(out), *map(_copy, inputs), **self.accepted(parameters)
        )
        return self._aligned(result, inputs)

    def products(self):
        """``{position: function}``, as for ``replaced_vjps``."""
        return {position: self._product(position) for position in self.positions}

    def _product(self, position):
        def vjp(g, out, *inputs, **parameters):
            # The engine requests one cotangent at a time; the function computes all of them in one call.
            key = (g, out, *inputs)
            known, gradients = getattr(self._last, "call", ((), None))
            if len(known) != len(key) or any(a is not b for a, b in zip(known, key)):
                gradients = self.gradients(g, out, inputs, parameters)
            waiting = [p for p in self.positions if p > position]
            self._last.call = (key, gradients) if waiting else ((), None)
            return gradients[position]

        names = ["g", "out", *self.primitive.input_names]
        parameters = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY) for n in names]
        keywords = inspect.Parameter("parameters", inspect.Parameter.VAR_KEYWORD)
        vjp.__signature__ = inspect.Signature([*parameters, keywords])
        vjp.__name__ = self.name
        return vjp

    def _check_signature(self, inputs):
        try:
            inspect.signature(self.function).bind_partial(*[None] * (2 + inputs))
        except TypeError:
            names = ", ".join(["g", "out", *self.primitive.input_names])
            given = inspect.signature(self.function)
            raise AnswerError(
                f"{self.name}{given} must take ({names}, ...), in this order"
            ) from None

    def accepted(self, parameters):
        """The parameters of a call that the function accepts.

        Raises:
            AnswerError: for a parameter that it does not accept and that differs from the primitive's default.
        """
        taken = inspect.signature(self.function).parameters
        if any(one.kind is one.VAR_KEYWORD for one in taken.values()):
            return parameters
        defaults = inspect.signature(self.primitive.forward).parameters
        for name, value in parameters.items():
            if name not in taken and not _same(value, defaults[name].default):
                raise AnswerError(
                    f"{self.name} takes no {name}, and is called with {name}={value!r}"
                )
        return {name: value for name, value in parameters.items() if name in taken}

    def _aligned(self, result, inputs):
        names = self.primitive.input_names
        wanted = [p for p in self.positions if inputs[p] is not None]
        if result is None:
            raise AnswerError(f"{self.name} returns None: is the return missing?")
        if len(self.positions) == 1 and not isinstance(result, tuple):
            result = (result,)
        if not isinstance(result, (tuple, list)):
            gradients = ", ".join(f"d{names[p]}" for p in self.positions)
            raise AnswerError(
                f"{self.name} returns one {type(result).__name__}: expected a tuple, ({gradients})"
            )
        if len(result) == len(self.positions):
            result = dict(zip(self.positions, result))
        elif len(result) == len(names):
            result = dict(enumerate(result))
        else:
            gradients = ", ".join(f"d{names[p]}" for p in self.positions)
            raise AnswerError(
                f"{self.name} returns {len(result)} gradients: expected ({gradients})"
            )
        aligned = [None] * len(names)
        for position in wanted:
            aligned[position] = self._array(result[position], f"d{names[position]}")
        return tuple(aligned)

    def _array(self, value, name):
        if value is None:
            raise AnswerError(f"the {name} that {self.name} returns is None: expected an array")
        if isinstance(value, Tensor) or is_array(value):
            return value
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise AnswerError(
                f"the {name} that {self.name} returns is a {type(value).__name__}: expected an array of numbers"
            )
        return array


def _copy(value):
    # In the same memory order: a product of transposed matrices has other last digits.
    return value.copy(order="K") if is_array(value) else value


def _same(value, default):
    return value is default or (type(value) is type(default) and value == default)
