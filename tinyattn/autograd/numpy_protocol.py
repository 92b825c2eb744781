"""NumPy's functions on tensors: recorded where an operation does the same, refused where a graph would be cut.

NumPy hands a call such as ``np.exp(x)`` over to the class of ``x`` (``__array_ufunc__`` for functions that work
element by element, ``__array_function__`` for the others). The operations say which of them they are with
``record_as``. Any other function computes with the tensors' arrays and gives arrays; of a tensor that requires a
gradient this would be a result without gradient, so that it is an error that names ``.numpy()``.

Source: NEP 13 and NEP 18 (NumPy enhancement proposals).
"""

import numpy as np

from .modes import current_mode

_OPERATIONS = {}  # NumPy's function -> what is called in its place


def record_as(function, operation):
    """Let ``operation`` answer for NumPy's ``function``: it gets the same arguments.

    It may return NotImplemented for arguments that it does not know; the call is then treated as that of a function
    without an operation.
    """
    _OPERATIONS[function] = operation


class AskedOfTheType:
    """A method that a class has and its instances have not: for them it is None.

    NumPy looks ``__array_ufunc__`` up in the type, and calls it. CuPy and the strict device ask the instance; None
    makes them leave ``array * tensor`` to the tensor.
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
            f"np.{name} got a Tensor to write into: write to its .data, outside any graph"
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
    """``value``, which may be a container of arguments, with arrays in place of tensors."""
    if _is_tensor(value):
        if value.requires_grad and current_mode.get().grad:
            raise TypeError(
                f"np.{name} got a Tensor that requires a gradient, and its result would have none: use tinyattn's "
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
