"""Serialized arrays round-trip, and damage is detected."""

import json

import numpy as np
import pytest

from tinyattn.train.storage.arrays import (
    DamagedFileError,
    SavedArrays,
    arrays_from_bytes,
    digest_of_arrays,
)


def test_shapes_dtypes_and_values_round_trip_for_any_memory_layout(random):
    wide = random.normal(size=(3, 8)).astype(np.float32)
    arrays = {
        "transposed": np.array([[1.0, 2.0], [3.0, 4.0]]).T,
        "strided": wide[:, ::2],
        "reversed": wide[::-1],
        "scalar": np.array(2.5, dtype=np.float32),
        "empty": np.zeros((0, 3), dtype=np.float32),
        "whole": np.arange(5, dtype=np.int64),
        "swapped": np.arange(5, dtype=">f4"),
        "flags": np.array([True, False]),
    }
    loaded = arrays_from_bytes(bytes(SavedArrays(arrays)))
    assert loaded.keys() == arrays.keys()
    for name, array in arrays.items():
        assert loaded[name].shape == array.shape, name
        assert loaded[name].dtype == array.dtype.newbyteorder("="), name
        assert np.array_equal(loaded[name], array), name


@pytest.mark.parametrize("value", [None, object(), lambda: 0, "text", [None, 1.0]])
def test_a_value_that_is_not_an_array_of_numbers_is_an_error(value):
    with pytest.raises(TypeError, match="cannot save 'odd'"):
        bytes(SavedArrays({"fine": np.zeros(3), "odd": value}))


def test_every_truncation_is_detected(random):
    content = bytes(SavedArrays({"w": random.normal(size=(2, 3)), "b": random.normal(size=3)}))
    for length in range(len(content)):
        with pytest.raises(DamagedFileError, match=r"file\.x is damaged"):
            arrays_from_bytes(content[:length], "file.x")


def test_every_flipped_bit_is_detected(random):
    content = bytes(SavedArrays({"w": random.normal(size=(2, 2)), "b": random.normal(size=1)}))
    for position in range(len(content)):
        flipped = bytearray(content)
        flipped[position] ^= 1 << random.integers(8)
        with pytest.raises(DamagedFileError):
            arrays_from_bytes(bytes(flipped))


def test_the_same_arrays_give_the_same_bytes():
    first = bytes(SavedArrays({"a": np.zeros(2), "b": np.ones(3)}))
    second = bytes(SavedArrays({"b": np.ones(3), "a": np.zeros(2)}))
    assert first == second


def with_header(content, change):
    """A safetensors file with a changed header: ``change`` maps its JSON to an object or bytes."""
    length = int.from_bytes(content[:8], "little")
    header = change(json.loads(content[8 : 8 + length]))
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


@pytest.mark.parametrize(
    "change",
    [
        lambda header: {**header, "__metadata__": None},
        lambda header: {**header, "__metadata__": {}},
        lambda header: {**header, "__metadata__": {"sha256": "0"}},
        lambda header: {**header, "w": {**header["w"], "dtype": "C64"}},
        lambda header: {**header, "w": {**header["w"], "dtype": "I64"}},
        lambda header: {**header, "w": {**header["w"], "shape": [10**30]}},
        lambda header: {"w": header["w"]},
        lambda header: [],
        lambda header: b"[" * 100_000 + b"]" * 100_000,
        lambda header: b'{"__metadata__":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_a_foreign_header_is_rejected(change):
    content = bytes(SavedArrays({"w": np.zeros(3)}))
    with pytest.raises(DamagedFileError, match=r"file\.x is damaged"):
        arrays_from_bytes(with_header(content, change), "file.x")


EXTENDED = np.dtype("longdouble").name  # float64 on some systems
NOT_SAVED = ["complex64", "complex128", *([EXTENDED] if EXTENDED != "float64" else [])]


@pytest.mark.parametrize("dtype", NOT_SAVED)
def test_complex_and_extended_arrays_are_rejected(dtype):
    with pytest.raises(TypeError, match=f"cannot save 'w': .*{dtype}"):
        bytes(SavedArrays({"w": np.zeros(3, dtype)}))


def test_arrays_of_another_state_are_rejected():
    content, other = bytes(SavedArrays({"w": np.zeros(3)})), bytes(SavedArrays({"w": np.ones(3)}))
    digest = digest_of_arrays(content)
    arrays_from_bytes(content, "file.x", digest=digest)
    with pytest.raises(DamagedFileError, match=r"file\.x belongs to another state"):
        arrays_from_bytes(other, "file.x", digest=digest)
