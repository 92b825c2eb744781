"""The rules of tinyattn.ops.exponential."""

import numpy as np
import pytest

import tinyattn as ta
from tests.gradient import check_gradient

SHAPES = [(), (0,), (1,), (2, 3), (2, 0, 3)]

# Name, NumPy's answer, and the range that the inputs are drawn from.
FUNCTIONS = [
    ("exp", np.exp, (-2, 2)),
    ("expm1", np.expm1, (-2, 2)),
    ("log", np.log, (0.5, 3)),
    ("log1p", np.log1p, (-0.5, 3)),
    ("sqrt", np.sqrt, (0.5, 3)),
    ("rsqrt", lambda x: 1 / np.sqrt(x), (0.5, 3)),
]
each_function = pytest.mark.parametrize(
    ("name", "expected", "interval"), FUNCTIONS, ids=[name for name, *_ in FUNCTIONS]
)


@each_function
@pytest.mark.parametrize("shape", SHAPES)
def test_values_equal_numpy_and_gradients_equal_differences(
    name, expected, interval, shape, device, random
):
    data = random.uniform(*interval, shape)
    np.testing.assert_allclose(
        getattr(ta, name)(ta.tensor(data, device=device)).numpy(), expected(data), rtol=1e-14
    )
    check_gradient(getattr(ta, name), data, device=device)


@each_function
def test_a_transposed_input_and_a_method_give_the_same(name, expected, interval, device, random):
    data = random.uniform(*interval, (2, 3))
    check_gradient(lambda x: getattr(x.T, name)(), data, device=device)
    x = ta.tensor(data, device=device)
    np.testing.assert_allclose(getattr(x.T, name)().numpy(), expected(data.T), rtol=1e-14)


@each_function
def test_float32_stays_float32_in_both_directions(name, expected, interval, device):
    x = ta.tensor(np.ones(3, np.float32), requires_grad=True, device=device)
    y = getattr(ta, name)(x)
    (g,) = ta.grad(y.sum(), x, create_graph=True)
    (h,) = ta.grad(g.sum(), x)
    assert y.dtype == g.dtype == h.dtype == np.float32


@each_function
def test_nan_propagates(name, expected, interval, device):
    assert np.isnan(getattr(ta, name)(ta.tensor([np.nan], device=device)).numpy())


def test_expm1_and_log1p_are_accurate_for_tiny_numbers(device):
    x = ta.tensor([1e-12], dtype=np.float32, device=device)
    assert x.expm1().item() == x.item()
    assert x.log1p().item() == x.item()


def test_the_gradient_of_sqrt_at_zero_is_infinite_where_used_and_zero_where_unused(device):
    x = ta.tensor([0.0, 0.0, 4.0], requires_grad=True, device=device)
    x.sqrt().backward(ta.tensor([1.0, 0.0, 1.0], device=device))
    assert x.grad.tolist() == [np.inf, 0.0, 0.25]


def test_half_the_square_of_a_vanishing_norm_has_gradient_zero(device):
    x = ta.tensor([0.0, 0.0], requires_grad=True, device=device)
    norm = ta.sqrt((x * x).sum())
    (0.5 * norm * norm).backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_the_second_derivative_of_sqrt_counts_where_the_first_cotangent_is_zero(device):
    # (sqrt x - 2)^2 at 4: its slope is 0 there, its curvature 1/8.
    x = ta.tensor(4.0, requires_grad=True, device=device)
    assert ta.hvp(lambda x: ta.square(x.sqrt() - 2), x, ta.ones_like(x)).item() == 0.125


def test_log_is_infinite_at_zero_and_nan_below(device):
    y = ta.tensor([0.0, -1.0], device=device).log().numpy()
    assert y[0] == -np.inf and np.isnan(y[1])
