"""``tinyattn.save`` and ``tinyattn.load``: save and load named tensors as safetensors."""

import os
from collections.abc import Mapping

from ...autograd import Tensor, tensor
from ...backend import backend_of, host_array, is_array
from ...data.atomic import write_atomic
from ...data.paths import readable_file
from .arrays import SavedArrays, arrays_from_bytes
from .digests import DIGEST
from .errors import DamagedFileError


def save(state, path):
    """Save named tensors to a safetensors file, which other libraries can read.

    The file is replaced atomically.

    Args:
        state: a dict of names to tensors, arrays or numbers, such as ``model.state_dict()``.
        path: the file; by convention its name ends in ``.safetensors``.

    Raises:
        TypeError: if ``state`` is not a flat dict of arrays.
        ImportError: if safetensors is not installed.
        OSError: if the file cannot be written.

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
                f"save() got a dict as {name!r}, expected a flat dict of tensors: save each part to its own file, "
                "and settings as JSON"
            )
        value = value._data if isinstance(value, Tensor) else value
        arrays[name] = host_array(backend_of(value).to_host(value) if is_array(value) else value)
    write_atomic(path, SavedArrays(arrays))


def load(path, device=None):
    """Load the tensors of a safetensors file, a dict of name to tensor.

    A file that ``save`` wrote is verified against its digest; files of other libraries have none.

    Args:
        path: the file.
        device: the device of the tensors; the default device if None.

    Raises:
        ValueError: if the file is damaged, or not a safetensors file.
        ImportError: if safetensors is not installed.
        OSError: if the file cannot be read.

    >>> import tinyattn as ta
    >>> ta.save({"x": ta.tensor([1.0, 2.0])}, "x.safetensors")
    >>> ta.load("x.safetensors")
    {'x': Tensor([1., 2.])}
    """
    safetensors = _require_safetensors()
    name, content = os.fspath(path), readable_file(path).read_bytes()
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
        arrays = None if DIGEST in metadata else safetensors.numpy.load(content)
    except (safetensors.SafetensorError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise DamagedFileError(
            f"{name} cannot be read as safetensors ({error}): expected a file that save() wrote, or another library's "
            "with dtypes that NumPy has"
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
