"""What a module's tensors hold: taken from saved arrays, moved between devices and types, left behind by a copy."""

import numpy as np

from ..autograd import Tensor
from ..backend import backend_of, host_array, is_array, native_dtype


def saved_array(name, value):
    """``value`` of a saved state as a NumPy array, what it holds still its own; ``name`` is for the error.

    Raises:
        TypeError: for a value that is no array of real numbers.
    """
    array = value.numpy() if isinstance(value, Tensor) else value
    array = host_array(backend_of(array).to_host(array) if is_array(array) else array)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"the value for {name} has dtype {array.dtype}: expected real numbers")
    return array


def overwrite(tensor, host):
    """Put the content of a host array of the same shape into ``tensor``, in its own memory."""
    data = tensor._data
    data[...] = backend_of(data).asarray(np.ascontiguousarray(host, dtype=data.dtype))
    tensor.bump_version()


def dtype_or_none(target):
    """``target`` as a dtype, if it is one and no device.

    >>> dtype_or_none("float64"), dtype_or_none("cpu")
    (dtype('float64'), None)
    """
    try:
        return native_dtype(target)
    except TypeError:
        return None


def move(tensor, backend, dtype):
    """Give ``tensor`` its content on ``backend`` and in ``dtype``; None for either leaves it as it is."""
    data = tensor._data
    if dtype is not None and data.dtype.kind == "f" and data.dtype != dtype:
        data = data.astype(dtype)
    home = backend_of(data)
    if backend is not None and backend is not home:
        data = backend.asarray(np.array(home.to_host(data)))
    if data is not tensor._data:
        tensor._data = data
        tensor.bump_version()


def detach_results(value, memo):
    """Let ``deepcopy`` find detached copies of the recorded tensors in ``value``, so that no graph is copied."""
    if isinstance(value, Tensor):
        if not value.is_leaf and id(value) not in memo:
            memo[id(value)] = Tensor._wrap(value._data.copy())
    elif isinstance(value, (list, tuple)):
        for item in value:
            detach_results(item, memo)
    elif isinstance(value, dict):
        for item in value.values():
            detach_results(item, memo)
