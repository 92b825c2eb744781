"""Validation of user input on the host: masked arrays, byte order, and unordered collections.

The operations would ignore the mask of a masked array, so ``reject_masked`` raises an error. Kernels do not support
arrays of non-native byte order, and their ``dtype == np.float32`` is False, so ``in_native_order`` converts them. The
order of a set differs between processes, so that a state saved by position could be assigned to other parameters:
``listed`` raises an error.
"""

import sys

import numpy as np


def reject_masked(value):
    """Raise TypeError if ``value`` is a masked array.

    >>> reject_masked(np.ma.array([1.0, 2.0], mask=[False, True]))
    Traceback (most recent call last):
    ...
    TypeError: got a masked array of shape (2,), and its mask would be ignored: ...
    """
    masked = sys.modules.get("numpy.ma")  # imported before a masked array can exist
    if masked is not None and isinstance(value, masked.MaskedArray):
        raise TypeError(
            f"got a masked array of shape {value.shape}, and its mask would be ignored: "
            "fill it with .filled(value), or pass .data and the mask to where() or masked_fill()"
        )


def host_array(data, dtype=None):
    """Convert ``data`` to a NumPy array in native byte order, copying only if necessary.

    Raises:
        TypeError: for a masked array.

    >>> host_array(np.array([1.0, 2.0], ">f4")).dtype == np.float32
    True
    """
    reject_masked(data)
    return in_native_order(np.asarray(data, dtype=dtype))


def in_native_order(array):
    """Convert ``array`` to native byte order."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def native_dtype(dtype):
    """Convert ``dtype`` to a NumPy dtype in native byte order; None stays None.

    >>> native_dtype(">f4") == np.float32
    True
    """
    return None if dtype is None else np.dtype(dtype).newbyteorder("=")


def listed(values, name):
    """Convert an ordered iterable to a list.

    Raises:
        TypeError: for a set, which has no order; ``name`` is for the message.

    >>> listed({"weight", "bias"}, "params")
    Traceback (most recent call last):
    ...
    TypeError: params is a set, which has no order: expected a list
    """
    if isinstance(values, (set, frozenset)):
        raise TypeError(f"{name} is a {type(values).__name__}, which has no order: expected a list")
    return list(values)
