"""What users hand over and what it may mean beside the numbers in it: masks, byte orders, collections without order.

A masked array computes with its mask, which the operations here would ignore: ``refuse_masked`` refuses it by name.
Numbers stored in the other byte order are the same numbers, but no kernel takes them and ``dtype == np.float32`` is
False: ``in_native_order`` converts them. A set has another order in every process, so that a state saved by position
would come back to other parameters: ``listed`` refuses it.
"""

import sys

import numpy as np


def refuse_masked(value):
    """Raise TypeError if ``value`` is a masked array.

    >>> refuse_masked(np.ma.array([1.0, 2.0], mask=[False, True]))
    Traceback (most recent call last):
    ...
    TypeError: got a masked array of shape (2,), and its mask would be ignored: ...
    """
    masked = sys.modules.get("numpy.ma")  # which NumPy imports with the first masked array
    if masked is not None and isinstance(value, masked.MaskedArray):
        raise TypeError(
            f"got a masked array of shape {value.shape}, and its mask would be ignored: "
            "fill it with .filled(value), or pass .data and the mask to where() or masked_fill()"
        )


def host_array(data, dtype=None):
    """``data`` as a NumPy array in native byte order; it is copied only where that needs it.

    Raises:
        TypeError: for a masked array.

    >>> host_array(np.array([1.0, 2.0], ">f4")).dtype == np.float32
    True
    """
    refuse_masked(data)
    return in_native_order(np.asarray(data, dtype=dtype))


def in_native_order(array):
    """``array`` with its numbers in the byte order of this machine."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def native_dtype(dtype):
    """``dtype`` as a NumPy dtype in the byte order of this machine; None stays None.

    >>> native_dtype(">f4") == np.float32
    True
    """
    return None if dtype is None else np.dtype(dtype).newbyteorder("=")


def listed(values, name):
    """``values``, any iterable in which order means something, as a list.

    Raises:
        TypeError: for a set, which has no order; ``name`` says of what.

    >>> listed({"weight", "bias"}, "params")
    Traceback (most recent call last):
    ...
    TypeError: params is a set, which has no order: expected a list
    """
    if isinstance(values, (set, frozenset)):
        raise TypeError(f"{name} is a {type(values).__name__}, which has no order: expected a list")
    return list(values)
