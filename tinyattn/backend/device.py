"""Device names and the default device."""

import contextlib
import contextvars
import importlib
import os
import re

from . import numpy_backend

_chosen_device = contextvars.ContextVar("tinyattn_device", default=None)
_backends = {"cpu": numpy_backend.BACKEND}  # by the names of devices

# Further kinds of devices, and the modules of this package that have their ``BACKEND``, or ``backend_for(number)``
# where devices are numbered. Each is imported at its first use.
_MODULES = {
    "cuda": "cupy_backend",
    "strict": "strict_backend",
}


def get_backend(device=None):
    """The backend of a device; None means the default device.

    Args:
        device: ``"cpu"``, ``"cuda"``, ``"cuda:N"`` or ``"strict"`` (NumPy with the restrictions of CuPy).

    Raises:
        ValueError: for another name.
        RuntimeError: for a CUDA device if CuPy or the GPU is missing.

    >>> get_backend("cpu")
    <Backend cpu>
    """
    name = default_device() if device is None else device
    if isinstance(name, str) and name in _backends:
        return _backends[name]
    _backends[name] = backend = _make_backend(name)
    return backend


def _make_backend(name):
    match = re.fullmatch(r"([a-z]+)(?::(\d+))?", name) if isinstance(name, str) else None
    kind, number = match.groups() if match else (None, None)
    if kind in _MODULES:
        module = importlib.import_module(f".{_MODULES[kind]}", __package__)
        if hasattr(module, "backend_for"):
            return module.backend_for(int(number or 0))
        if number is None:
            return module.BACKEND
    known = ", ".join(f'"{kind}"' for kind in ("cpu", *_MODULES))
    raise ValueError(
        f'unknown device {name!r}: expected {known}, or "cuda:N" with the number of the GPU'
    )


def default_device():
    """The device of new tensors: set by ``device(...)``, else by TINYATTN_DEVICE in the environment, else ``"cpu"``.

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
