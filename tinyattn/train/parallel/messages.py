"""What worker processes say to each other: values and errors, pickled; arrays in shared memory by their place."""

import functools
import io
import pickle
import sys
import traceback

import numpy as np

from ...backend import shared


def pack(message):
    """The bytes of a message; an array in shared memory goes as where it lies, so that both sides use the same one."""
    packed = io.BytesIO()
    _Pickler(packed, pickle.HIGHEST_PROTOCOL).dump(message)
    return packed.getvalue()


unpack = pickle.loads


class _Pickler(pickle.Pickler):
    def reducer_override(self, value):
        address = shared.address(value) if type(value) is np.ndarray else None
        return NotImplemented if address is None else (shared.array_at, address)


def can_be_sent(value):
    """Whether another process gets ``value`` as it is, all its arrays being in shared memory.

    >>> can_be_sent([shared.zeros(3), 1.0]), can_be_sent({"x": np.zeros(3)}), can_be_sent(lambda: 0)
    (True, False, False)
    """
    if isinstance(value, (tuple, list)):
        return all(map(can_be_sent, value))
    if isinstance(value, dict):
        return all(map(can_be_sent, value.values()))
    if isinstance(value, functools.partial):
        return all(map(can_be_sent, (value.func, value.args, value.keywords)))
    if isinstance(value, np.ndarray):
        return shared.is_shared(value)
    if callable(value):
        module = sys.modules.get(getattr(value, "__module__", None))
        return getattr(module, getattr(value, "__qualname__", ""), None) is value
    return value is None or isinstance(value, (bool, int, float, str, slice, np.generic))


class _InWorker(Exception):
    """Where in another process an error arose: its traceback as text."""


def portable(error):
    """An error as what can be packed: itself or a RuntimeError that names it, and its traceback as text."""
    text = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return error, text


def with_traceback(error, text):
    """The error that ``portable`` made, with the place where it arose as its cause."""
    error.__cause__ = _InWorker(f"\n{text}")
    return error
