"""Safetensors files: written as the library reads them, mapped without a copy, and every damage is noticed."""

import json
import os

import numpy as np
import pytest

from tinyattn.data import InputError
from tinyattn.data.safetensors_file import map_tensors, write_tensors


def write_raw(path, header, content=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def test_the_library_reads_what_is_written_and_the_reverse(path, random):
    from safetensors.numpy import load_file, save_file

    arrays = {
        "a": random.normal(size=(2, 3)),
        "b": random.normal(size=4).astype(np.float32),
        "c": random.normal(size=()).astype(np.float16),
        "d": np.empty((0, 2)),
    }
    write_tensors(path, arrays)
    theirs = load_file(path)
    save_file(arrays, path)
    ours = map_tensors(path)
    for name, array in arrays.items():
        for found in (theirs[name], ours[name]):
            assert found.dtype == array.dtype
            np.testing.assert_array_equal(found, array)


def test_arrays_may_be_computed_when_they_are_written(path):
    write_tensors(path, {"x": lambda: np.arange(3.0)})
    assert map_tensors(path)["x"].tolist() == [0, 1, 2]


def test_any_order_in_memory_is_written_in_the_order_of_rows(path):
    array = np.arange(6.0).reshape(2, 3)
    write_tensors(path, {"x": array.T})
    np.testing.assert_array_equal(map_tensors(path)["x"], array.T)


def test_a_header_without_padding_is_read(path):
    header = {"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
    for spaces in range(4):
        write_raw(path, json.dumps(header).encode() + b" " * spaces, np.float32(7).tobytes())
        assert map_tensors(path)["x"].tolist() == [7]


def tensor(**values):
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **values}


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        ([1], "not a JSON object"),
        ({"x": 3}, "describes x incompletely"),
        ({"x": tensor(data_offsets=[0])}, "describes x incompletely"),
        ({"x": tensor(shape=[-2])}, "impossible shape"),
        ({"x": tensor(shape=[2.0])}, "impossible shape"),
        ({"x": tensor(shape=[True, 2])}, "impossible shape"),
        ({"x": tensor(shape=[3])}, "has 8 bytes, which is not its shape"),
        ({"x": tensor(), "y": tensor()}, "overlap"),
        ({"x": tensor(data_offsets=[4, 12])}, "gap at byte 4"),
        ({}, "longer than its tensors"),
        ({"x": tensor(), "y": tensor(data_offsets=[8, 16])}, "truncated"),
    ],
)
def test_damage_is_named(path, header, reason):
    write_raw(path, header, bytes(8))
    with pytest.raises(InputError, match="damaged or not a safetensors file") as error:
        map_tensors(path)
    assert reason in str(error.value)


def test_a_header_of_an_impossible_length_is_not_allocated(path):
    path.write_bytes((1 << 60).to_bytes(8, "little") + b"{}")
    with pytest.raises(InputError, match="ends before its header"):
        map_tensors(path)


def test_another_dtype_is_refused_unless_it_is_ignored(path):
    write_raw(path, {"mask": tensor(dtype="U8", shape=[8])}, bytes(8))
    with pytest.raises(InputError, match="mask of dtype U8"):
        map_tensors(path)
    assert map_tensors(path, lambda name: name == "mask") == {}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_is_refused_without_reading_it(path):
    os.mkfifo(path)
    both_ends = os.open(path, os.O_RDWR)
    os.write(both_ends, bytes(8))  # so that a reader does not wait
    with pytest.raises(InputError, match="is a pipe"):
        map_tensors(path)
    os.close(both_ends)
