"""The rules of tinyattn.ops.conversion."""

import numpy as np
import pytest

import tinyattn as ta
from tests.gradient import check_gradient


def test_the_cotangent_takes_the_element_type_of_the_input(device):
    x = ta.tensor([1.0, 2.0], requires_grad=True, device=device)
    y = x.astype(np.float64)
    y.backward(ta.tensor([3.0, 4.0], dtype=np.float64, device=device))
    assert (y.dtype, x.grad.dtype) == (np.float64, np.float32)
    assert x.grad.tolist() == [3, 4]


@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_the_gradient_passes_a_cast_also_of_second_order(shape, device, random):
    check_gradient(
        lambda x: ta.astype(x, np.float64).square(), random.normal(size=shape), device=device
    )


def test_integers_have_no_gradient(device):
    x = ta.tensor([1.5, 2.0], requires_grad=True, device=device)
    y = x.astype(np.int64)
    assert y.tolist() == [1, 2] and not y.requires_grad


def test_the_cotangent_is_moved_to_the_device_of_the_input(device):
    x = ta.tensor([1.0, 2.0], requires_grad=True, device="cpu")
    y = ta.to_device(x, device).square()
    assert y.device == device
    y.sum().backward()
    assert x.grad.device == "cpu"
    assert x.grad.tolist() == [2, 4]


def test_moving_between_devices_has_second_order_gradients(device):
    x = ta.tensor([1.0, 2.0], requires_grad=True, device="cpu")
    (g,) = ta.grad((x.to(device) ** 3).sum(), x, create_graph=True)
    (h,) = ta.grad(g.sum(), x)
    assert g.device == h.device == "cpu"
    assert h.tolist() == [6, 12]


def test_moving_to_a_device_and_back_round_trips(device):
    x = ta.tensor([1.0, 2.0], requires_grad=True, device=device)
    y = x.to("cpu").to(device).to("strict").cpu()
    y.backward(ta.tensor([3.0, 4.0], device="cpu"))
    assert x.grad.device == device and x.grad.tolist() == [3, 4]


def test_to_takes_a_device_or_an_element_type(device):
    x = ta.tensor([1.5], device=device)
    assert x.to("float64").dtype == x.to(np.float64).dtype == x.to(float).dtype == np.float64
    assert x.to("cpu").device == x.cpu().device == "cpu"
    assert x.to(device) is x and x.to(np.float32) is x


@pytest.mark.parametrize("name", ["tpu", "cuda:x", "float33", ""])
def test_an_unknown_name_is_an_error(name, device):
    with pytest.raises(ValueError, match="unknown device"):
        ta.ones(1, device=device).to(name)


def test_mixed_devices_are_an_error_that_names_them():
    x, y = ta.ones(2, device="cpu"), ta.ones(2, device="strict")
    for operation in (
        lambda: x + y,
        lambda: x @ y,
        lambda: ta.where(x > 0, x, y),
        lambda: x[y > 0],
    ):
        with pytest.raises(TypeError, match="strict"):
            operation()


def test_to_takes_names_and_needs_one(device):
    x = ta.tensor([1.0])
    y = x.to(device=device, dtype="float64")
    assert y.device == device and y.dtype == np.float64
    with pytest.raises(TypeError, match="needs a device"):
        x.to(None)


def test_a_tensor_on_the_same_device_shares_no_memory_unnoticed(device):
    x = ta.tensor([1.0], device=device)
    y = ta.to_device(x, device)
    y.data[0] = 5.0
    assert x.tolist() == [1]
