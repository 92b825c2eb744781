"""``ta.save`` and ``ta.load`` round-trip tensors, and report what they do not support."""

import builtins
import json
import struct

import numpy as np
import pytest

import tinyattn as ta


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.safetensors"


def test_tensors_round_trip(path, random, device):
    state = {
        "matrix": ta.tensor(random.standard_normal((2, 3)), device=device).T,
        "flags": ta.tensor([True, False], device=device),
        "whole": np.arange(5),
        "swapped": np.arange(3, dtype=">f4"),
        "number": 2.5,
        "empty": np.zeros((0, 3), np.float16),
    }
    ta.save(state, path)
    loaded = ta.load(path, device=device)
    assert loaded.keys() == state.keys()
    for name, value in state.items():
        expected = value.numpy() if isinstance(value, ta.Tensor) else np.asarray(value)
        assert type(loaded[name]) is ta.Tensor and loaded[name].device == device
        assert loaded[name].dtype == expected.dtype.newbyteorder("=")
        assert np.array_equal(loaded[name].numpy(), expected)


def test_a_model_and_its_optimizer_continue_after_loading(path, random):
    def made():
        model = ta.nn.Linear(2, 3)
        return model, ta.optim.AdamW(model.named_parameters(), lr=0.1)

    def step(model, optimizer):
        optimizer.zero_grad()
        (model(ta.ones((4, 2))) ** 2).sum().backward()
        optimizer.step()

    model, optimizer = made()
    step(model, optimizer)
    state = optimizer.state_dict()
    ta.save(model.state_dict(), path)
    ta.save(state["arrays"], path.with_name("optimizer"))
    other, restored = made()
    other.load_state_dict(ta.load(path))
    restored.load_state_dict(
        {"arrays": ta.load(path.with_name("optimizer")), "settings": state["settings"]}
    )
    step(model, optimizer)
    step(other, restored)
    assert np.array_equal(model.weight.numpy(), other.weight.numpy())


def test_saving_replaces_the_old_file_without_leftovers(path):
    ta.save({"x": ta.zeros(2)}, path)
    ta.save({"x": ta.ones(2)}, str(path))
    assert ta.load(path)["x"].tolist() == [1, 1]
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (lambda: ta.nn.Linear(1, 1), r"got a Linear.*save\(model\.state_dict\(\), path\)"),
        (lambda: [ta.ones(1)], "got a list, expected a dict of names"),
        (lambda: {"model": {"x": ta.ones(1)}}, "a dict as 'model', expected a flat dict"),
        (lambda: {"x": "text"}, "cannot save 'x'"),
        (lambda: {1: ta.ones(1)}, "expected a string, given 1"),
        (lambda: {"x": np.ma.array([1.0], mask=[True])}, "masked array"),
    ],
)
def test_an_unsupported_value_is_an_error_and_nothing_is_written(path, state, words):
    with pytest.raises(TypeError, match=words):
        ta.save(state(), path)
    assert not path.exists()


def test_a_damaged_file_is_rejected(path, random):
    ta.save({"x": ta.tensor(random.standard_normal(3))}, path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.safetensors is damaged"):
        ta.load(path)
    path.write_bytes(content[:50])
    with pytest.raises(ValueError, match=r"x\.safetensors cannot be read as safetensors"):
        ta.load(path)


def written_elsewhere(path, kind, numbers):
    """A safetensors file without a digest, by the format's description."""
    header = {"x": {"dtype": kind, "shape": [len(numbers) // 2], "data_offsets": [0, len(numbers)]}}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + numbers)


def test_a_file_of_another_library_is_loaded(path):
    numbers = np.array([1.0, 2.0], np.float16)
    written_elsewhere(path, "F16", numbers.tobytes())
    assert ta.load(path)["x"].tolist() == [1, 2]
    written_elsewhere(path, "BF16", numbers.tobytes())
    with pytest.raises(ValueError, match="dtypes that NumPy has"):
        ta.load(path)


def test_a_missing_file_is_named_in_the_error(path):
    with pytest.raises(FileNotFoundError, match=r"x\.safetensors"):
        ta.load(path)


def test_without_safetensors_the_error_says_what_to_install(path, monkeypatch):
    original = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.startswith("safetensors"):
            raise ImportError("No module named 'safetensors'")
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    for call in (lambda: ta.save({"x": ta.ones(1)}, path), lambda: ta.load(path)):
        with pytest.raises(ImportError, match="pip install safetensors"):
            call()
