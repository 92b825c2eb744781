"""Conversion of user input - numbers, sequences, arrays, tensors - to the arrays that operations work on."""

import numpy as np

from ..backend import backend_of, get_backend, host_array, is_array, native_dtype, reject_masked
from .pytorch_names import ElementCount


def raw(value):
    """The array of a Tensor; other values unchanged."""
    return value._data if getattr(value, "is_tensor", False) else value


def is_double(value):
    """Whether ``value`` is an array of float64 or complex128."""
    return hasattr(value, "dtype") and value.dtype.char in "dD"


def plain_input(value):
    """Convert a non-Tensor input for a rule: NumPy scalars become Python scalars, which do not promote dtypes."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) is ElementCount:
        return int(value)
    if is_array(value):
        return backend_of(value).untracked(value)
    return value


def in_common_dtype(inputs, differentiable=lambda position: True):
    """``inputs`` with floating-point tensors and arrays of different dtypes converted to their common dtype.

    It is NumPy's: the widest. An operation is then as accurate as its widest input in every intermediate result, and
    the conversions, which are recorded, return gradients in the dtypes of the inputs. Inputs at positions that are not
    ``differentiable``, such as token ids, stay as they are: errors name the dtype that the caller gave.

    >>> import tinyattn as ta
    >>> [x.dtype.name for x in in_common_dtype([ta.tensor([1.0]), ta.tensor([1.0], dtype="float64"), None]) if x]
    ['float64', 'float64']
    """
    of = [
        None
        if isinstance(value, np.generic) or not differentiable(position)
        else getattr(value, "dtype", None)
        for position, value in enumerate(inputs)
    ]
    dtypes = set(of) - {None}
    if any(dtype.kind == "c" for dtype in dtypes):
        return inputs
    floats = {dtype for dtype in dtypes if dtype.kind == "f"}
    if len(floats) < 2:
        return inputs
    common = np.result_type(*floats)
    return [
        value.astype(common) if dtype in floats - {common} else value
        for value, dtype in zip(inputs, of)
    ]


def on_default_device(values):
    """Convert scalars and sequences to arrays on the default device, for calls such as ``exp(2.0)``."""
    return [
        value if value is None or is_array(value) else fresh_array(value, None, None)
        for value in values
    ]


def convert_operands(values, inputs, copy):
    """Convert non-Tensor operands to arrays, copying those that backward reads.

    A sequence becomes an array on the device of the others; its floating-point numbers take the dtype of the first
    floating-point array, or float32. With ``copy`` arrays are copied, because backward or a view reads them later, and
    no version counter would detect a write by the caller.
    """
    given = [value for value in values if hasattr(value, "dtype")]
    backend = backend_of(given[0])
    floating = next((array.dtype for array in given if array.dtype.kind == "f"), np.float32)
    arrays = []
    for value, original in zip(values, inputs, strict=True):
        if isinstance(value, (list, tuple)):
            host = _numbers(value)
            value = backend.asarray(host.astype(floating) if host.dtype.kind == "f" else host)
        elif copy and is_array(value) and not getattr(original, "is_tensor", False):
            value = value.copy()
        arrays.append(value)
    return arrays


def fresh_array(data, dtype, device):
    """Copy ``data`` to a new array on the requested device."""
    is_tensor = getattr(data, "is_tensor", False)
    data = raw(data)
    dtype = native_dtype(dtype)
    if not is_array(data):
        host = _numbers(data, dtype)
        if dtype is None and host.dtype == np.float64:
            host = host.astype(np.float32)
        return get_backend(device).asarray(host)
    _check_numeric(data, data.dtype)
    source = backend_of(data)
    # Without ``device``, tensors and GPU arrays keep their device; host arrays go to the default device.
    stays = device is None and (is_tensor or not isinstance(data, np.ndarray))
    backend = source if stays else get_backend(device)
    if backend is source:
        dtype = native_dtype(data.dtype) if dtype is None else dtype
        return backend.asarray(source.xp.array(data, dtype=dtype, copy=True))
    return backend.asarray(np.array(source.to_host(data), dtype=dtype))


def _numbers(data, dtype=None):
    """Convert a number or a nested sequence to a NumPy array."""
    _check_entries(data)
    try:
        host = np.array(data, dtype=dtype)
    except (ValueError, TypeError) as error:
        raise TypeError(
            f"cannot make a tensor of {type(data).__name__}: expected numbers in a regular nested sequence ({error})"
        ) from error
    _check_numeric(data, host.dtype)
    return host_array(host)


def _check_entries(data):
    """Raise TypeError for tensors with a graph and masked arrays in a nested sequence: NumPy would drop both."""
    stack = [data]
    while stack:
        sequence = stack.pop()
        if not isinstance(sequence, (list, tuple)):
            continue
        for kind in set(map(type, sequence)):
            if issubclass(kind, (list, tuple)):
                stack += [entry for entry in sequence if isinstance(entry, kind)]
            elif getattr(kind, "is_tensor", False):
                if any(getattr(entry, "requires_grad", False) for entry in sequence):
                    raise TypeError(
                        "an array of tensors that require a gradient would cut the graph: "
                        "use stack() or concatenate()"
                    )
            elif issubclass(kind, np.ndarray):
                for entry in sequence:
                    reject_masked(entry)


def _check_numeric(data, dtype):
    if dtype.kind not in "biufc":
        raise TypeError(
            f"cannot make a tensor of {type(data).__name__} with elements of dtype {dtype}: expected numbers"
        )
