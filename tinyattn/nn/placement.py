"""Contents of a module's tensors: loading saved arrays, moving between devices and dtypes, detaching for a copy."""

import numpy as np

from ..autograd import Tensor
from ..backend import backend_of, host_array, is_array, native_dtype


def saved_array(name, value):
    """Convert ``value`` of a saved state to a NumPy array, possibly without copying; ``name`` is for the error message.

    Raises:
        TypeError: for a value that is not an array of real numbers.
    """
    array = value.numpy() if isinstance(value, Tensor) else value
    array = host_array(backend_of(array).to_host(array) if is_array(array) else array)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"the value for {name} has dtype {array.dtype}: expected real numbers")
    return array


def overwrite(tensor, host):
    """Copy a host array of the same shape into ``tensor``, in place."""
    data = tensor._data
    data[...] = backend_of(data).asarray(np.ascontiguousarray(host, dtype=data.dtype))
    tensor.bump_version()


def adopt(tensor, host):
    """Make a host array of the same shape the memory of ``tensor``, without a copy; the tensor moves to the CPU."""
    tensor._data = host
    tensor.bump_version()


def dtype_or_none(target):
    """Convert ``target`` to a dtype; None if it is not a dtype but the name of a device.

    >>> dtype_or_none("float64"), dtype_or_none("cpu")
    (dtype('float64'), None)
    """
    try:
        return native_dtype(target)
    except TypeError:
        return None


def move(tensor, backend, dtype):
    """Move the content of ``tensor`` to ``backend`` and cast it to ``dtype``; None keeps the current one."""
    data = tensor._data
    if dtype is not None and data.dtype.kind == "f" and data.dtype != dtype:
        data = data.astype(dtype)
    source = backend_of(data)
    if backend is not None and backend is not source:
        data = backend.asarray(np.array(source.to_host(data)))
    if data is not tensor._data:
        tensor._data = data
        tensor.bump_version()


def detach_results(value, memo):
    """Put detached copies of the recorded tensors in ``value`` into ``memo``, so that ``deepcopy`` copies no graph."""
    if isinstance(value, Tensor):
        if not value.is_leaf and id(value) not in memo:
            memo[id(value)] = Tensor._wrap(value._data.copy())
    elif isinstance(value, (list, tuple)):
        for item in value:
            detach_results(item, memo)
    elif isinstance(value, dict):
        for item in value.values():
            detach_results(item, memo)
