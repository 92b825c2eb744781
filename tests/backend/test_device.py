"""Device names and the default device."""

import pytest

import tinyattn as ta
from tinyattn.backend import default_device, get_backend


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "CPU", "", 0, ["cpu"]])
def test_an_unknown_device_is_a_value_error_that_lists_the_known(name):
    with pytest.raises(ValueError, match=r'unknown device .*expected "cpu", "cuda"'):
        get_backend(name)


def test_the_same_name_gives_the_same_backend(device):
    assert get_backend(device) is get_backend(device)
    assert get_backend(device).device == device


def test_the_context_chooses_the_device_of_new_tensors_and_restores_it(device):
    before = default_device()
    with ta.device(device):
        assert ta.tensor([1.0]).device == device
        with ta.device("cpu"):
            assert ta.tensor([1.0]).device == "cpu"
        assert ta.tensor([1.0]).device == device
    assert default_device() == before
    with pytest.raises(ZeroDivisionError), ta.device(device):
        raise ZeroDivisionError
    assert default_device() == before


def test_an_unknown_name_is_refused_when_the_context_is_entered():
    with pytest.raises(ValueError, match="unknown device"), ta.device("tpu"):
        pass


def test_the_environment_chooses_where_nothing_else_does(monkeypatch):
    monkeypatch.setenv("TINYATTN_DEVICE", "strict")
    assert ta.tensor([1.0]).device == "strict"
    with ta.device("cpu"):
        assert ta.tensor([1.0]).device == "cpu"
    assert ta.tensor([1.0], device="cpu").device == "cpu"
    monkeypatch.setenv("TINYATTN_DEVICE", "")
    assert ta.tensor([1.0]).device == "cpu"


def test_tensors_on_two_devices_are_not_mixed_silently():
    on_cpu = ta.tensor([1.0], device="cpu")
    on_strict = ta.tensor([1.0], device="strict")
    with pytest.raises(TypeError, match=r"cpu.*strict.*\.to\(device\)"):
        on_cpu + on_strict
