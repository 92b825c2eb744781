"""Named arrays as safetensors: plain numbers with names and shapes, no code, no pickle.

The format says nothing about damage, so a digest of names, types, shapes and contents goes along
in its
metadata: a file that was cut short or changed in one bit is refused as a whole.
"""

import hashlib

import numpy as np

from ...data import InputError

_DIGEST = "sha256"


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
        if array.dtype.kind not in "biufc":
            raise TypeError(
                f"cannot save {name!r}: expected an array of numbers, "
                f"given {type(arrays[name]).__name__} of dtype {array.dtype}"
            )
        # np.ascontiguousarray would make a 0-d array 1-d; safetensors itself ignores strides.
        ordered[name] = array.astype(array.dtype.newbyteorder("="), order="C", copy=False)
    return save(ordered, metadata={_DIGEST: _digest(ordered)})


def _require_string(name):
    if not isinstance(name, str):
        raise TypeError(f"arrays are saved by name: expected a string, given {name!r}")
    return name


def arrays_from_bytes(content, name="the checkpoint", advice="take another copy"):
    """The arrays that ``arrays_to_bytes`` wrote, every one checked before any is given out.

    Args:
        content: bytes of a safetensors file.
        name: what to call the file in a message.
        advice: what to do instead, for the message.

    Raises:
        DamagedFileError: where the content is not exactly what was written.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(content)
        metadata = _metadata(content)
    except (
        SafetensorError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
    ) as error:
        raise DamagedFileError(f"{name} is damaged ({error}): {advice}") from None
    if metadata.get(_DIGEST) != _digest(arrays):
        raise DamagedFileError(f"{name} is damaged (its digest differs): {advice}")
    return arrays


def _metadata(content):
    import json

    header_length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + header_length])["__metadata__"]


def _digest(arrays):
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
