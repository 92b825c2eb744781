"""NumPy functions on tensors: recorded if there is an equivalent operation, an error if they would cut the graph.

NumPy dispatches a call such as ``np.exp(x)`` to the class of ``x`` (``__array_ufunc__`` for elementwise functions,
``__array_function__`` for the others). Operations register as equivalents with ``record_as``. Any other function
computes with the arrays of the tensors and returns arrays; for a tensor that requires a gradient this is an error,
because the result would have none.

Source: NEP 13 and NEP 18 (NumPy enhancement proposals).
"""

import numpy as np

from .modes import current_mode

_OPERATIONS = {}  # NumPy function -> equivalent operation


def record_as(function, operation):
    """Register ``operation``, with the same arguments, as the equivalent of NumPy's ``function``.

    It may return NotImplemented for unsupported arguments; the call is then handled like that of a function without an
    equivalent operation.
    """
    _OPERATIONS[function] = operation


class ClassOnlyMethod:
    """A method that is visible on the class and None on instances.

    NumPy looks up ``__array_ufunc__`` on the type. CuPy and the strict device look it up on the instance; None makes
    them defer ``array * tensor`` to the tensor.
    """

    def __init__(self, method):
        self._method = method

    def __get__(self, instance, owner):
        return self._method if instance is None else None


def call_ufunc(_tensor, ufunc, method, *inputs, out=(), **keywords):
    """``__array_ufunc__`` of a tensor."""
    operation = _OPERATIONS.get(ufunc)
    if operation is not None and method == "__call__" and not out and not keywords:
        return operation(*inputs)
    name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
    if any(_is_tensor(value) for value in out):
        raise TypeError(
            f"np.{name} got a Tensor as out: write to its .data instead, outside any graph"
        )
    if out:
        keywords["out"] = out
    arrays = _without_tensors(inputs, name)
    result = getattr(ufunc, method)(*arrays, **_without_tensors(keywords, name))
    return out[0] if len(out) == 1 else result


def call_function(_tensor, function, _types, arguments, keywords):
    """``__array_function__`` of a tensor."""
    operation = _OPERATIONS.get(function)
    if operation is not None:
        result = operation(*arguments, **keywords)
        if result is not NotImplemented:
            return result
    name = function.__name__
    module = function.__module__.removeprefix("numpy").lstrip(".")
    name = f"{module}.{name}" if module in ("linalg", "fft") else name
    return function(*_without_tensors(arguments, name), **_without_tensors(keywords, name))


def _is_tensor(value):
    return getattr(value, "is_tensor", False)


def _without_tensors(value, name):
    """Replace tensors by arrays in ``value``, which may be a container of arguments."""
    if _is_tensor(value):
        if value.requires_grad and current_mode.get().grad:
            raise TypeError(
                f"np.{name} got a Tensor that requires a gradient, but its result would have none: use tinyattn's "
                "operations, or compute outside the graph with x.numpy()"
            )
        return np.asarray(value)
    if isinstance(value, list):
        return [_without_tensors(item, name) for item in value]
    if isinstance(value, tuple):
        return tuple(_without_tensors(item, name) for item in value)
    if isinstance(value, dict):
        return {key: _without_tensors(item, name) for key, item in value.items()}
    return value
