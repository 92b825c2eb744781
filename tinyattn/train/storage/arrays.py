"""Serialize named arrays as safetensors: numbers with names and shapes, no code, no pickle.

The format does not detect damage. Its metadata therefore contain a digest of names, dtypes, shapes and contents, and a
file that was truncated or changed in one bit is rejected.
"""

import hashlib
import json

import numpy as np

from ...data import InputError
from ...data.safetensors_file import TensorContent, array_bytes
from .digests import DIGEST
from .errors import DamagedFileError


class SavedArrays(TensorContent):
    """The content of a safetensors file with named arrays and their digest: see ``TensorContent``.

    Shapes and dtypes are kept; elements are stored in C order, whatever the strides.

    Args:
        arrays: dict of name to NumPy array, number, or nested list of numbers.

    Attributes:
        digest: as ``digest_of_arrays``.

    Raises:
        TypeError: if a name is not a string, or a value is not an array of real numbers of up to 64 bits.

    >>> content = bytes(SavedArrays({"w": np.array([[1, 2], [3, 4]]).T}))
    >>> arrays_from_bytes(content)["w"].tolist()
    [[1, 3], [2, 4]]
    """

    def __init__(self, arrays):
        ordered = {}
        for name in sorted(arrays, key=_require_string):
            array = np.asarray(arrays[name])
            if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
                raise TypeError(
                    f"cannot save {name!r}: expected an array of real numbers of up to 64 bits, "
                    f"given {type(arrays[name]).__name__} of dtype {array.dtype}"
                )
            ordered[name] = array.astype(array.dtype.newbyteorder("="), order="C", copy=False)
        self.digest = _digest(ordered)
        super().__init__(ordered, {DIGEST: self.digest})


def _require_string(name):
    if not isinstance(name, str):
        raise TypeError(f"arrays are saved by name: expected a string, given {name!r}")
    return name


def arrays_from_bytes(content, name="the checkpoint", advice="take another copy", digest=None):
    """The arrays in the bytes of ``SavedArrays``, verified against their digest.

    Args:
        content: bytes of a safetensors file.
        name: name of the file in error messages.
        advice: what to do, in error messages.
        digest: expected ``digest_of_arrays``; None accepts any.

    Raises:
        DamagedFileError: if the content was changed, or has another digest than expected.
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
        raise DamagedFileError(f"{name} is damaged (its digest does not match): {advice}")
    if digest is not None and stored != digest:
        raise DamagedFileError(f"{name} belongs to another state: {advice}")
    return arrays


def digest_of_arrays(content):
    """The digest in the metadata of ``content``, bytes of ``SavedArrays``."""
    header_length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + header_length])["__metadata__"][DIGEST]


def _digest(arrays):
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(array_bytes(array))
    return digest.hexdigest()


def check_arrays(expected, arrays, name):
    """Check that ``arrays`` have the expected names, shapes and dtypes.

    Args:
        expected: dict of name to array, or to another object with a shape and a dtype.
        arrays: dict of name to array.
        name: name of the arrays in error messages.

    Raises:
        InputError: for the first tensor that is missing, unknown, or of another shape or dtype.
    """
    for tensor, like in expected.items():
        if tensor not in arrays:
            raise InputError(f"{name} has no tensor {tensor!r}: it belongs to another model")
        array = arrays[tensor]
        for quantity, given, wanted in (
            ("shape", tuple(array.shape), tuple(like.shape)),
            ("dtype", array.dtype, like.dtype),
        ):
            if given != wanted:
                raise InputError(
                    f"{name} has {tensor!r} of {quantity} {given}, and the model's is {wanted}: "
                    f"it belongs to another model"
                )
    unknown = sorted(arrays.keys() - expected.keys())
    if unknown:
        raise InputError(f"{name} has a tensor {unknown[0]!r} that the model does not have")


def check_finite(arrays, name):
    """Check that a model's ``arrays`` contain neither NaN nor infinity; ``name`` is for the error message.

    Raises:
        InputError: for the first tensor that does.
    """
    tensor = first_not_finite(arrays)
    if tensor is not None:
        raise InputError(
            f"{name} has {tensor!r} with values that are not finite, so training diverged: "
            f"use an earlier state, or train again with a smaller --learning-rate"
        )


def first_not_finite(arrays):
    """The name of the first of ``arrays`` that contains NaN or infinity, or None."""
    return next((name for name, array in arrays.items() if not np.isfinite(array).all()), None)
