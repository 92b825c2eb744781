"""Names of devices, and which one new tensors go to."""

import contextlib
import contextvars
import os
import re

from . import numpy_backend

_chosen_device = contextvars.ContextVar("tinyattn_device", default=None)
_backends = {"cpu": numpy_backend.BACKEND}


def get_backend(device=None):
    """The backend of a device name; None means the default device.

    Args:
        device: ``"cpu"``, ``"cuda"``, ``"cuda:N"`` or ``"strict"`` (NumPy memory that refuses what CuPy refuses).

    Raises:
        ValueError: for another name.
        RuntimeError: for a CUDA device where CuPy or the GPU is missing.

    >>> get_backend("cpu")
    <Backend cpu>
    """
    name = default_device() if device is None else device
    if isinstance(name, str) and name in _backends:
        return _backends[name]
    _backends[name] = backend = _make_backend(name)
    return backend


def _make_backend(name):
    if isinstance(name, str):
        if name == "strict":
            from . import strict_backend

            return strict_backend.BACKEND
        cuda = re.fullmatch(r"cuda(?::(\d+))?", name)
        if cuda:
            from . import cupy_backend

            return cupy_backend.backend_for(int(cuda.group(1) or 0))
    raise ValueError(
        f'unknown device {name!r}: expected "cpu", "cuda", "cuda:N" (N the number of the GPU) or "strict"'
    )


def default_device():
    """The device that new tensors go to: set by ``device(...)``, else by TINYATTN_DEVICE, else ``"cpu"``.

    >>> default_device()
    'cpu'
    """
    return _chosen_device.get() or os.environ.get("TINYATTN_DEVICE") or "cpu"


@contextlib.contextmanager
def device(name):
    """Make ``name`` the default device inside a ``with`` block.

    >>> with device("cpu"):
    ...     default_device()
    'cpu'
    """
    get_backend(name)
    token = _chosen_device.set(name)
    try:
        yield
    finally:
        _chosen_device.reset(token)
