"""Named arrays as safetensors: plain numbers with names and shapes, no code, no pickle.

The format does not detect damage, so its metadata hold a digest of names, types, shapes and contents: a file that was
cut short or changed in one bit is refused as a whole.
"""

import hashlib
import json

import numpy as np

from ...data import InputError
from .seal import DIGEST


class DamagedFileError(InputError):
    """A checkpoint's file is not what was written: cut short, changed, or something else."""


def arrays_to_bytes(arrays):
    """A safetensors file of ``arrays``, a dict of name to array, as bytes.

    Arrays keep their shape and dtype, whatever their layout in memory: a transposed view is
    stored in the order of its elements.

    Args:
        arrays: NumPy arrays or what can give a NumPy array without loss (numbers, nested lists
            of them).

    Raises:
        TypeError: for a name that is no string or a value that is no array of numbers.

    >>> content = arrays_to_bytes({"w": np.array([[1, 2], [3, 4]]).T})
    >>> arrays_from_bytes(content)["w"].tolist()
    [[1, 3], [2, 4]]
    """
    from safetensors.numpy import save

    ordered = {}
    for name in sorted(arrays, key=_require_string):
        array = np.asarray(arrays[name])
        if array.dtype.kind not in "biuf":
            raise TypeError(
                f"cannot save {name!r}: expected an array of real numbers, "
                f"given {type(arrays[name]).__name__} of dtype {array.dtype}"
            )
        # np.ascontiguousarray would make a 0-d array 1-d; safetensors itself ignores strides.
        ordered[name] = array.astype(array.dtype.newbyteorder("="), order="C", copy=False)
    return save(ordered, metadata={DIGEST: _digest(ordered)})


def _require_string(name):
    if not isinstance(name, str):
        raise TypeError(f"arrays are saved by name: expected a string, given {name!r}")
    return name


def arrays_from_bytes(content, name="the checkpoint", advice="take another copy", digest=None):
    """The arrays that ``arrays_to_bytes`` wrote, every one checked before any is given out.

    Args:
        content: bytes of a safetensors file.
        name: what to call the file in a message.
        advice: what to do instead, for the message.
        digest: the ``digest_of_arrays`` that the file must have; any by default.

    Raises:
        DamagedFileError: where the content is not exactly what was written, or has another digest.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(content)
        stored = digest_of_arrays(content)
    except (
        SafetensorError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        what = str(error) or type(error).__name__
        raise DamagedFileError(f"{name} is damaged ({what[:200]}): {advice}") from None
    if stored != _digest(arrays):
        raise DamagedFileError(f"{name} is damaged (its digest differs): {advice}")
    if digest is not None and stored != digest:
        raise DamagedFileError(f"{name} belongs to another state: {advice}")
    return arrays


def digest_of_arrays(content):
    """The digest that ``arrays_to_bytes`` wrote into ``content``."""
    header_length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + header_length])["__metadata__"][DIGEST]


def _digest(arrays):
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def check_arrays(expected, arrays, name):
    """Refuse ``arrays`` whose names, shapes or dtypes are not those ``expected``, before anything is changed.

    Args:
        expected: dict of name to array, or anything else with a shape and a dtype.
        arrays: dict of name to array.
        name: what to call the arrays in a message.

    Raises:
        InputError: with the first tensor that is missing, unknown or of another shape or dtype.
    """
    for tensor, like in expected.items():
        if tensor not in arrays:
            raise InputError(f"{name} has no tensor {tensor!r}: it belongs to another model")
        array = arrays[tensor]
        if tuple(array.shape) != tuple(like.shape):
            raise InputError(
                f"{name} has {tensor!r} of shape {tuple(array.shape)}, and the model's is "
                f"{tuple(like.shape)}: it belongs to another model"
            )
        if array.dtype != like.dtype:
            raise InputError(
                f"{name} has {tensor!r} of dtype {array.dtype}, and the model's is {like.dtype}: "
                f"it belongs to another model"
            )
    unknown = sorted(arrays.keys() - expected.keys())
    if unknown:
        raise InputError(f"{name} has a tensor {unknown[0]!r} that the model has not")


def check_finite(arrays, name):
    """Refuse a model's ``arrays`` that hold NaN or an infinity; ``name`` is what to call them in the message.

    Raises:
        InputError: with the first such tensor.
    """
    tensor = first_not_finite(arrays)
    if tensor is not None:
        raise InputError(
            f"{name} has {tensor!r} with values that are not finite, the training had diverged: "
            f"take an earlier state, or train again with a smaller --learning-rate"
        )


def first_not_finite(arrays):
    """The name of the first of ``arrays`` that holds NaN or an infinity, or None."""
    return next((name for name, array in arrays.items() if not np.isfinite(array).all()), None)
