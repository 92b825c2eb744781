"""Between element types and between devices."""

import numpy as np

from ..autograd import Tensor, primitive
from ..backend import backend_of, get_backend, native_dtype


@primitive
def astype(x, /, dtype):
    """``x`` with another element type.

    Backward. The cotangent takes the input's element type; the engine does this for every operation.

    >>> import tinyattn as ta
    >>> ta.astype(ta.tensor([1.5]), "float64").dtype
    dtype('float64')
    """
    return x.astype(native_dtype(dtype))


@astype.vjp
def astype_vjp(g, _out, _x, *, dtype):
    return g


def at_least_float32(x):
    """``x`` itself, or as float32 where its numbers are shorter: sums need float32's range and digits.

    >>> import numpy as np
    >>> at_least_float32(np.ones(2, np.float16)).dtype
    dtype('float32')
    """
    return x.astype("float32") if x.dtype.itemsize < 4 and x.dtype.kind == "f" else x


def wide_floats(x):
    """``x`` as floating-point numbers of at least float32, whole numbers as float64: their differences may not wrap.

    >>> import numpy as np
    >>> wide_floats(np.array([1, 3], np.uint8)) - 3
    array([-2.,  0.])
    """
    return at_least_float32(x) if x.dtype.kind in "fc" else x.astype("float64")


def in_dtype_of(x, result):
    """``result`` in the dtype of ``x``, if that is one of floating-point numbers."""
    return result if x.dtype.kind != "f" or result.dtype == x.dtype else result.astype(x.dtype)


@primitive
def to_device(x, /, device):
    """``x`` on another device.

    Backward. The cotangent goes back to the device that ``x`` came from.

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
    """The tensor on another device, with another element type, or both; itself, if nothing changes.

    Args:
        device_or_dtype: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"strict"``, or a dtype such as ``"float64"``.
        device, dtype: the same by name.

    Raises:
        ValueError: for a name that is neither.
        TypeError: if nothing is given.

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
