"""Arrays come back as they were, or not at all."""

import numpy as np
import pytest

from tinyattn.train.storage.arrays import DamagedFileError, arrays_from_bytes, arrays_to_bytes


def test_shapes_dtypes_and_values_survive_whatever_the_layout(random):
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
    loaded = arrays_from_bytes(arrays_to_bytes(arrays))
    assert loaded.keys() == arrays.keys()
    for name, array in arrays.items():
        assert loaded[name].shape == array.shape, name
        assert loaded[name].dtype == array.dtype.newbyteorder("="), name
        assert np.array_equal(loaded[name], array), name


@pytest.mark.parametrize("value", [None, object(), lambda: 0, "text", [None, 1.0]])
def test_what_is_no_array_of_numbers_is_refused_by_name(value):
    with pytest.raises(TypeError, match="cannot save 'odd'"):
        arrays_to_bytes({"fine": np.zeros(3), "odd": value})


def test_every_length_short_of_the_whole_is_damage(random):
    content = arrays_to_bytes({"w": random.normal(size=(2, 3)), "b": random.normal(size=3)})
    for length in range(len(content)):
        with pytest.raises(DamagedFileError, match=r"file\.x is damaged"):
            arrays_from_bytes(content[:length], "file.x")


def test_every_flipped_bit_is_damage(random):
    content = arrays_to_bytes({"w": random.normal(size=(2, 2)), "b": random.normal(size=1)})
    for position in range(len(content)):
        flipped = bytearray(content)
        flipped[position] ^= 1 << random.integers(8)
        with pytest.raises(DamagedFileError):
            arrays_from_bytes(bytes(flipped))


def test_the_same_arrays_give_the_same_bytes():
    first = arrays_to_bytes({"a": np.zeros(2), "b": np.ones(3)})
    second = arrays_to_bytes({"b": np.ones(3), "a": np.zeros(2)})
    assert first == second
