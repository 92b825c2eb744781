"""``tinyattn.save`` and ``tinyattn.load``: named tensors in a safetensors file."""

import os
from collections.abc import Mapping
from pathlib import Path

from ...autograd import Tensor, tensor
from ...backend import backend_of, host_array, is_array
from .arrays import DamagedFileError, arrays_from_bytes, arrays_to_bytes
from .atomic import write_atomic
from .seal import DIGEST


def save(state, path):
    """Write named tensors to a safetensors file, which other libraries read too.

    The file is complete or not there: it is written beside its place and moved over an older one.

    Args:
        state: a dict of names to tensors, arrays or numbers, such as ``model.state_dict()``.
        path: where to; by custom the name ends in ``.safetensors``.

    Raises:
        TypeError: for what is no flat dict of arrays.
        ImportError: where safetensors is missing.
        OSError: where the file cannot be written.

    >>> import tinyattn as ta
    >>> model = ta.nn.Linear(2, 3)
    >>> ta.save(model.state_dict(), "linear.safetensors")
    >>> ta.nn.Linear(2, 3).load_state_dict(ta.load("linear.safetensors"))
    ([], [])
    """
    if not isinstance(state, Mapping):
        hint = ": write save(model.state_dict(), path)" if hasattr(state, "state_dict") else ""
        raise TypeError(
            f"save() got a {type(state).__name__}, expected a dict of names to tensors{hint}"
        )
    _require_safetensors()
    arrays = {}
    for name, value in state.items():
        if isinstance(value, Mapping):
            raise TypeError(
                f"save() got a dict as {name!r}, expected a flat dict of tensors: a file for each part, and settings "
                "as JSON"
            )
        value = value._data if isinstance(value, Tensor) else value
        arrays[name] = host_array(backend_of(value).to_host(value) if is_array(value) else value)
    write_atomic(path, arrays_to_bytes(arrays))


def load(path, device=None):
    """The tensors of a safetensors file, as a dict by name.

    What ``save`` wrote is checked against its digest; files of other libraries have none.

    Args:
        path: the file.
        device: where to; by default the default device.

    Raises:
        ValueError: for a file that is damaged, or no safetensors file.
        ImportError: where safetensors is missing.
        OSError: where the file cannot be read.

    >>> import tinyattn as ta
    >>> ta.save({"x": ta.tensor([1.0, 2.0])}, "x.safetensors")
    >>> ta.load("x.safetensors")
    {'x': Tensor([1., 2.])}
    """
    safetensors = _require_safetensors()
    name, content = os.fspath(path), Path(path).read_bytes()
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
        arrays = None if DIGEST in metadata else safetensors.numpy.load(content)
    except (safetensors.SafetensorError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise DamagedFileError(
            f"{name} cannot be read as safetensors ({error}): expected what save() writes, or another library's file "
            "of element types that NumPy has"
        ) from None
    if arrays is None:
        arrays = arrays_from_bytes(content, name)
    return {name: tensor(array, device=device) for name, array in arrays.items()}


def _require_safetensors():
    try:
        import safetensors
        import safetensors.numpy
    except ImportError as error:
        raise ImportError(
            f"save() and load() need safetensors ({error}): pip install safetensors"
        ) from error
    return safetensors
