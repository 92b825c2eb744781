"""Map the tensors of a safetensors file, and write one, with NumPy only.

A file is: the length of the header (8 bytes, little-endian), the header (JSON: name to dtype, shape and the offsets of
the first byte and the byte after the last), and the bytes of the tensors, one after the other without gaps.

Trade-offs: the library ``safetensors`` copies every tensor when it reads, and all tensors into one string when it
writes. A mapped file costs no time and no memory until a page is read, and all processes share it. Writes to a mapped
array stay in this process (copy-on-write). The file must not be truncated while it is mapped; replacing it by another
is safe.

Source: the description of the format in the repository of ``safetensors``.
"""

import json
import math

import numpy as np

from .atomic import write_atomic
from .errors import InputError
from .json_text import parse_json
from .paths import readable_file

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}  # NumPy has no bfloat16
OTHER_DTYPES = {
    **{"BOOL": "?", "I8": "i1", "U8": "u1", "I16": "<i2", "U16": "<u2", "I32": "<i4", "U32": "<u4"},
    **{"I64": "<i8", "U64": "<u8"},
}
LONGEST_HEADER = 100_000_000  # bytes, the limit of the format
ALIGNMENT = 8  # bytes; the header is padded with spaces


def map_tensors(path, ignore=lambda name: False):
    """The tensors of a file, a dict of names to arrays that are views of the mapped file.

    Args:
        path: the file.
        ignore: whether to leave out the tensor of a name.

    Returns:
        Arrays of float64, float32 or float16; bfloat16, which NumPy lacks, is converted to float32.

    Raises:
        InputError: if the file is missing, truncated, not a safetensors file or no file, or has a tensor of another
            dtype.

    >>> write_tensors("a.safetensors", {"x": np.ones((1, 2), np.float32)})
    >>> map_tensors("a.safetensors")
    {'x': array([[1., 1.]], dtype=float32)}
    """
    path = readable_file(path)
    try:
        size = path.stat().st_size
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = file.read(length) if length <= min(size - 8, LONGEST_HEADER) else None
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    if size < 8 or header is None:
        raise _damaged(path, f"it ends before its header, after {size:,} bytes")
    start = 8 + length
    tensors = _parse_header(path, header, size - start)
    content = np.memmap(path, np.uint8, "c") if size > start else np.empty(0, np.uint8)
    content = content.view(np.ndarray)  # the memmap remains as its base
    arrays = {}
    for name, (kind, shape, begin, end) in tensors.items():
        if ignore(name):
            continue
        if kind not in DTYPES:
            raise InputError(f"{path} has {name} of dtype {kind}: expected {', '.join(DTYPES)}")
        arrays[name] = _array(content[start + begin : start + end], kind, shape)
    return arrays


def _array(content, kind, shape):
    dtype = np.dtype(DTYPES[kind])
    if content.ctypes.data % dtype.itemsize:
        content = content.copy()  # a header of another program that is not padded
    array = content.view(dtype).reshape(shape)
    if kind == "BF16":  # the upper half of a float32
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _parse_header(path, header, size):
    """Name to (dtype, shape, begin, end) of the tensors in a header; ``size`` is the number of bytes that follow it."""
    try:
        values = parse_json(header.decode("utf-8"), "the header")
    except (InputError, UnicodeDecodeError):
        raise _damaged(path, "its header is not JSON") from None
    if not isinstance(values, dict):
        raise _damaged(path, "its header is not a JSON object")
    values.pop("__metadata__", None)
    tensors = {}
    itemsizes = {k: np.dtype(v).itemsize for k, v in (DTYPES | OTHER_DTYPES).items()}
    for name, value in values.items():
        try:
            kind, shape = value["dtype"], value["shape"]
            begin, end = value["data_offsets"]
            numbers = [begin, end, *shape]
        except (KeyError, TypeError, ValueError):
            raise _damaged(path, f"its header describes {name} incompletely") from None
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise _damaged(path, f"its header has an impossible shape or place of {name}")
        if kind in itemsizes and end - begin != math.prod(shape) * itemsizes[kind]:
            raise _damaged(path, f"{name} has {end - begin} bytes, which is not its shape {shape}")
        tensors[name] = kind, tuple(shape), begin, end
    expected = 0
    for _, _, begin, end in sorted(tensors.values(), key=lambda tensor: tensor[2:]):
        if begin != expected:
            raise _damaged(path, f"its tensors overlap or leave a gap at byte {begin:,}")
        expected = end
    if expected != size:
        what = "truncated" if size < expected else "longer than its tensors"
        raise _damaged(path, f"it is {what}: {size:,} bytes of tensors, expected {expected:,}")
    return tensors


def _damaged(path, why):
    return InputError(f"{path} is damaged or not a safetensors file: {why}")


class TensorContent:
    """The content of a safetensors file, an iterable of its pieces: the header, and the bytes of each tensor.

    It can be iterated over several times. Arrays in C order are not copied, and must not change.

    Args:
        arrays: dict of name to an array of real numbers, or to a function without arguments that returns one, for
            arrays that should not all be in memory at once; the function is called twice.
        metadata: dict of string to string, stored in the header.

    >>> content = TensorContent({"x": np.ones(2)}, {})
    >>> [len(piece) for piece in content]
    [88, 16]
    """

    def __init__(self, arrays, metadata):
        kinds = {np.dtype(v): k for k, v in (DTYPES | OTHER_DTYPES).items() if k != "BF16"}
        header, end = {"__metadata__": metadata}, 0
        for name, array in arrays.items():
            array = _evaluated(array)
            begin, end = end, end + array.nbytes
            header[name] = {
                "dtype": kinds[array.dtype.newbyteorder("<")],
                "shape": list(array.shape),
                "data_offsets": [begin, end],
            }
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % ALIGNMENT)
        self._arrays = arrays
        self._header = len(text).to_bytes(8, "little") + text

    def __iter__(self):
        yield self._header
        for array in self._arrays.values():
            yield array_bytes(_evaluated(array))

    def __bytes__(self):
        return b"".join(self)


def array_bytes(array):
    """The elements of an array in C order and little-endian, a uint8 array; a view where possible.

    >>> array_bytes(np.array([[1, 2]], ">u2")).tolist()
    [1, 0, 2, 0]
    """
    array = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    return array.reshape(-1).view(np.uint8)


def write_tensors(path, arrays):
    """Write arrays to a safetensors file, atomically.

    Args:
        path: the file.
        arrays: as for ``TensorContent``.
    """
    write_atomic(path, TensorContent(arrays, {"format": "pt"}))  # transformers requires this entry


def _evaluated(array):
    return array() if callable(array) else array
