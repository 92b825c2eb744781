"""Activation functions."""

import math

import numpy as np
import pytest

import tinyattn as ta
from tests.gradient import check_gradient

ACTIVATIONS = {
    "relu": ta.relu,
    "relu_squared": ta.relu_squared,
    "sigmoid": ta.sigmoid,
    "silu": ta.silu,
    "gelu": ta.gelu,
    "gelu_tanh": lambda x: ta.gelu(x, approximate="tanh"),
    "erf": ta.erf,
}
activation = pytest.mark.parametrize("name", ACTIVATIONS)

HAND_VALUES = {
    "relu": lambda x: max(x, 0.0),
    "relu_squared": lambda x: max(x, 0.0) ** 2,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "gelu": lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2)),
    "gelu_tanh": lambda x: (
        0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "erf": math.erf,
}


@activation
def test_values_are_those_of_the_definition(device, random, name):
    x = random.standard_normal(200) * 3
    expected = [HAND_VALUES[name](value) for value in x]
    out = ACTIVATIONS[name](ta.tensor(x, device=device))
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-13, atol=1e-15)


@activation
def test_gradients_agree_with_differences_to_second_order(device, random, name):
    check_gradient(ACTIVATIONS[name], random.standard_normal((3, 4)) * 2, device=device)


@activation
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_dtype_is_kept_in_both_directions(device, name, dtype):
    x = ta.tensor(np.array([-1.0, 0.5], dtype), requires_grad=True, device=device)
    out = ACTIVATIONS[name](x)
    out.sum().backward()
    assert out.dtype == x.grad.dtype == dtype


@activation
def test_nan_is_not_hidden(device, name):
    x = ta.tensor([math.nan, 1.0], requires_grad=True, device=device)
    out = ACTIVATIONS[name](x)
    out.sum().backward()
    assert np.isnan(out.numpy()).tolist() == [True, False]
    assert not np.isnan(x.grad.numpy()[1])


@activation
def test_inputs_far_from_zero_give_neither_nan_nor_warning(device, name):
    x = ta.tensor([-1e4, -800.0, 800.0, 1e4], requires_grad=True, device=device)
    out = ACTIVATIONS[name](x)
    out.sum().backward()
    assert np.isfinite(out.numpy()).all()
    assert np.isfinite(x.grad.numpy()).all()


def test_relu_has_derivative_zero_at_zero(device):
    x = ta.tensor([-1.0, 0.0, -0.0, 2.0], requires_grad=True, device=device)
    ta.relu(x).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0, 1.0]


def test_sigmoid_of_very_negative_numbers_is_accurate(device):
    x = ta.tensor(np.array([-40.0, -700.0]), device=device)
    np.testing.assert_allclose(ta.sigmoid(x).numpy(), np.exp([-40.0, -700.0]), rtol=1e-14)


def test_erf_is_exact_to_1e_15_on_the_whole_line(device):
    x = np.concatenate([np.linspace(-7, 7, 1401), [0.46875, np.nextafter(0.46875, 1), 1e-300]])
    expected = [math.erf(value) for value in x]
    out = ta.erf(ta.tensor(x, device=device)).numpy()
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-15)
    limits = ta.erf(ta.tensor([-np.inf, -0.0, np.inf], device=device)).numpy()
    assert limits.tolist() == [-1.0, 0.0, 1.0]
    assert np.signbit(limits[1])


def test_erf_is_odd_and_keeps_small_numbers(device, random):
    x = random.standard_normal(100) * 2
    positive, negative = (ta.erf(ta.tensor(s * x, device=device)).numpy() for s in (1, -1))
    np.testing.assert_array_equal(positive, -negative)
    tiny = ta.erf(ta.tensor(np.array([1e-20]), device=device)).item()
    assert tiny == pytest.approx(2e-20 / math.sqrt(math.pi), rel=1e-15)


def test_the_two_forms_of_gelu_differ_and_an_unknown_one_is_an_error(device):
    x = ta.tensor([2.0], device=device)
    difference = abs(ta.gelu(x).item() - ta.gelu(x, "tanh").item())
    assert 5e-5 < difference < 5e-4
    with pytest.raises(ValueError, match="approximate='exact'"):
        ta.gelu(x, "exact")


def test_float16_keeps_erf_and_gelu_finite(device):
    x = np.array([-6.0, -3.0, 0.0, 3.0, 6.0], np.float16)
    for f in (ta.erf, ta.gelu):
        y = f(ta.tensor(x, device=device))
        assert y.dtype == np.float16
        np.testing.assert_allclose(
            y.numpy(), f(ta.tensor(x.astype(np.float64))).numpy(), rtol=2e-3, atol=5e-3
        )
