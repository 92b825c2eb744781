"""Messages to and from worker processes: pickled objects and errors; arrays in shared memory are sent by address."""

import io
import pickle
import traceback

import numpy as np

from ...backend import shared


def pack(message, copy_arrays=True):
    """Pickle a message.

    An array in shared memory is sent as its address, so that the receiver uses the same memory; others are copied.

    Args:
        copy_arrays: whether other arrays may be copied. What the receiver writes into a copy is lost.

    Raises:
        TypeError: for an array that may not be copied.
    """
    packed = io.BytesIO()
    pickler = _Pickler(packed, pickle.HIGHEST_PROTOCOL)
    pickler.copy_arrays = copy_arrays
    pickler.dump(message)
    return packed.getvalue()


unpack = pickle.loads


class _Pickler(pickle.Pickler):
    def reducer_override(self, value):
        if isinstance(value, np.ndarray):
            if (address := shared.address(value)) is not None:
                return shared.array_at, address
            if not self.copy_arrays:
                raise TypeError(
                    f"worker processes cannot write to an array of shape {value.shape} in private memory: "
                    "call share(optimizer) of the executor, or use arrays of backend.shared.zeros"
                )
        return NotImplemented


class _RemoteTraceback(Exception):
    """The traceback of an error in a worker process, as text."""


def picklable_error(error):
    """A picklable pair: the error, or a RuntimeError with its message, and the traceback as text."""
    text = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return error, text


def with_traceback(error, text):
    """The error of a pair from ``picklable_error``, with the traceback in the worker process as its cause."""
    error.__cause__ = _RemoteTraceback(f"\n{text}")
    return error
