"""The rules of tinyattn.ops.trigonometric."""

import numpy as np
import pytest

import tinyattn as ta
from tests.gradient import check_gradient

each_function = pytest.mark.parametrize("name", ["sin", "cos", "tanh"])


@each_function
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3)])
def test_values_equal_numpy_and_gradients_equal_differences(name, shape, device, random):
    data = random.normal(size=shape)
    y = getattr(ta, name)(ta.tensor(data, device=device))
    np.testing.assert_allclose(y.numpy(), getattr(np, name)(data), rtol=1e-14)
    check_gradient(getattr(ta, name), data, device=device)


@each_function
def test_a_transposed_input_and_a_method_give_the_same(name, device, random):
    check_gradient(lambda x: getattr(x.T, name)(), random.normal(size=(2, 3)), device=device)


@each_function
def test_float32_stays_float32_in_both_directions(name, device):
    x = ta.tensor([0.5], requires_grad=True, device=device)
    y = getattr(ta, name)(x)
    (g,) = ta.grad(y.sum(), x)
    assert y.dtype == g.dtype == np.float32


def test_tanh_has_zero_gradient_far_from_zero(device):
    x = ta.tensor([-1000.0, 1000.0], requires_grad=True, device=device)
    y = x.tanh()
    y.backward(ta.tensor([2.0, 3.0], device=device))
    assert y.tolist() == [-1, 1] and x.grad.tolist() == [0, 0]
