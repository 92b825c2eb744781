"""Gradient clipping: the measured norm, scaled gradients, and cases that leave gradients unchanged."""

import math

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.optim import clip_grad_norm


def with_gradient(values, device="cpu", dtype=np.float64):
    parameter = ta.tensor(np.zeros_like(values, dtype), requires_grad=True, device=device)
    parameter.grad = ta.tensor(np.array(values, dtype), device=device)
    return parameter


def test_a_small_norm_leaves_the_gradients_to_the_bit(device):
    parameter = with_gradient([0.3, 0.4], device)
    assert clip_grad_norm([parameter], 1.0) == pytest.approx(0.5)
    assert parameter.grad.tolist() == [0.3, 0.4]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_norm_that_is_not_finite_is_returned_and_nothing_is_changed(value, device):
    parameters = [with_gradient([1.0, value], device), with_gradient([3.0], device)]
    assert not math.isfinite(clip_grad_norm(parameters, 1.0))
    assert parameters[1].grad.tolist() == [3.0]


def test_one_tensor_and_infinity_are_taken(device):
    parameter = with_gradient([3.0, 4.0], device)
    assert clip_grad_norm(parameter, math.inf) == 5.0
    assert parameter.grad.tolist() == [3.0, 4.0]


def test_a_module_in_place_of_its_parameters_is_refused():
    with pytest.raises(TypeError, match=r"a Linear: write model.parameters\(\)"):
        clip_grad_norm(ta.nn.Linear(2, 3), 1.0)


def test_float16_gradients_do_not_overflow_in_their_squares(device):
    parameter = with_gradient([300.0, 400.0], device, np.float16)
    assert clip_grad_norm([parameter], 1.0) == pytest.approx(500)
    assert parameter.grad.dtype == np.float16


def test_float32_gradients_stay_float32_under_a_limit_of_numpys(device):
    parameter = with_gradient([3.0, 4.0], device, np.float32)
    clip_grad_norm([parameter], np.float64(1.0))
    assert parameter.grad.dtype == np.float32


@pytest.mark.parametrize(("limit", "kind"), [(-1.0, 2), (math.nan, 2), (1.0, 3)])
def test_invalid_arguments_raise(limit, kind):
    with pytest.raises(ValueError, match=r"max_norm|norm_type"):
        clip_grad_norm([with_gradient([1.0])], limit, kind)


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("float32", 1e20),
        ("float32", 1e38),
        ("float64", 1e200),
        ("float32", 1e-25),
        ("float64", 1e-200),
    ],
)
def test_gradients_whose_squares_leave_the_number_format(dtype, size, device):
    parameters = [with_gradient(np.full(50, size), device, dtype) for _ in range(2)]
    norm = clip_grad_norm(parameters, 1.0)
    assert norm == pytest.approx(10 * size)
    for parameter in parameters:
        assert parameter.grad.tolist() == pytest.approx([min(0.1, size)] * 50)


def test_a_tiny_gradient_next_to_an_ordinary_one_and_gradients_of_zeros(device):
    parameters = [
        with_gradient([1e-30], device, "float32"),
        with_gradient([3.0], device, "float32"),
    ]
    assert clip_grad_norm(parameters, 10.0) == 3.0
    assert clip_grad_norm(with_gradient([0.0, 0.0], device), 1.0) == 0.0
