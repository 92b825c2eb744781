"""Conversion between dtypes and between devices."""

import numpy as np

from ..autograd import Tensor, primitive
from ..backend import backend_of, get_backend, native_dtype


@primitive
def astype(x, /, dtype):
    """``x`` converted to another dtype.

    Backward. The cotangent is converted to the input's dtype; the engine does this for all operations.

    >>> import tinyattn as ta
    >>> ta.astype(ta.tensor([1.5]), "float64").dtype
    dtype('float64')
    """
    return x.astype(native_dtype(dtype))


@astype.vjp
def astype_vjp(g, _out, _x, *, dtype):
    return g


def at_least_float32(x):
    """``x`` itself, or float16 as float32: sums need the range and precision of float32.

    >>> import numpy as np
    >>> at_least_float32(np.ones(2, np.float16)).dtype
    dtype('float32')
    """
    return x.astype("float32") if x.dtype.itemsize < 4 and x.dtype.kind == "f" else x


def wide_floats(x):
    """``x`` in at least float32, integers in float64, so that differences do not wrap around.

    >>> import numpy as np
    >>> wide_floats(np.array([1, 3], np.uint8)) - 3
    array([-2.,  0.])
    """
    return at_least_float32(x) if x.dtype.kind in "fc" else x.astype("float64")


def in_dtype_of(x, result):
    """``result`` converted to the dtype of ``x``, if that is floating-point."""
    return result if x.dtype.kind != "f" or result.dtype == x.dtype else result.astype(x.dtype)


@primitive
def to_device(x, /, device):
    """``x`` copied to another device.

    Backward. The cotangent is copied to the device of ``x``.

    >>> import tinyattn as ta
    >>> ta.to_device(ta.tensor([1.5]), "cpu").device
    'cpu'
    """
    home, backend = backend_of(x), get_backend(device)
    return x.copy() if backend is home else backend.asarray(home.to_host(x))


@to_device.vjp
def to_device_vjp(g, _out, x, *, device):
    source = backend_of(getattr(x, "_data", x)).device
    return to_device.rule(g, device=source)


def to(x, device_or_dtype=None, *, device=None, dtype=None):
    """Convert a tensor to another device, dtype, or both; returns ``x`` itself if nothing changes.

    Args:
        device_or_dtype: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"strict"``, or a dtype such as ``"float64"``.
        device, dtype: the same as keyword arguments.

    Raises:
        ValueError: for an unknown name.
        TypeError: if neither is given.

    >>> import tinyattn as ta
    >>> ta.tensor([1.5]).to("float64").dtype
    dtype('float64')
    """
    x = x if isinstance(x, Tensor) else Tensor(x)
    if device_or_dtype is not None:
        try:
            dtype = np.dtype(device_or_dtype)
        except TypeError:
            device = device_or_dtype
    if device is None and dtype is None:
        raise TypeError('to() needs a device such as "cpu" or a dtype such as "float32"')
    if device is not None and get_backend(device) is not backend_of(x._data):
        x = to_device(x, device=get_backend(device).device)
    return x if dtype is None or x.dtype == np.dtype(dtype) else astype(x, dtype=dtype)
