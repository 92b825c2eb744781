"""The rules of tinyattn.ops.arithmetic."""

import numpy as np
import pytest

import tinyattn as ta
from tests.gradient import check_gradient

PAIRS = [((), ()), ((2, 3), (2, 3)), ((2, 1), (3,)), ((), (2,)), ((0, 3), (1, 3)), ((1,), (2, 2))]
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power}
UNARY = {"neg": np.negative, "abs": np.abs, "square": np.square}


@pytest.mark.parametrize("shapes", PAIRS)
@pytest.mark.parametrize("name", BINARY)
def test_values_equal_numpy_and_gradients_equal_differences(name, shapes, device, random):
    x, y = (random.uniform(0.5, 2, shape) for shape in shapes)
    z = getattr(ta, name)(ta.tensor(x, device=device), ta.tensor(y, device=device))
    np.testing.assert_allclose(z.numpy(), BINARY[name](x, y), rtol=1e-14)
    check_gradient(getattr(ta, name), x, y, device=device)
    check_gradient(lambda x, y: getattr(ta, name)(x.T, y.T).T, x.T, y.T, device=device)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3)])
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name, shape, device, random):
    data = random.normal(size=shape)
    y = getattr(ta, name)(ta.tensor(data, device=device))
    np.testing.assert_array_equal(y.numpy(), UNARY[name](data))
    check_gradient(getattr(ta, name), data, device=device)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, 0.5, -1.5])
def test_a_number_as_exponent(exponent, device, random):
    data = random.uniform(0.5, 2, (2, 3))
    np.testing.assert_allclose(
        (ta.tensor(data, device=device) ** exponent).numpy(), data**exponent, rtol=1e-14
    )
    check_gradient(lambda x: x**exponent, data, device=device)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3])
def test_whole_powers_of_negative_numbers_and_of_zero(exponent, device):
    data = np.array([-1.5, 0.0, 2.0])
    x = ta.tensor(data, requires_grad=True, device=device)
    (x**exponent).sum().backward()
    expected = exponent * data ** (exponent - 1.0) if exponent else np.zeros(3)
    np.testing.assert_allclose(x.grad.numpy(), expected)


@pytest.mark.parametrize("base", [2, 0.5, 1])
def test_a_number_to_the_power_of_a_tensor(base, device, random):
    check_gradient(lambda x: base**x, random.normal(size=3), device=device)


def test_an_exponent_that_is_zero_has_gradients_of_second_order(device, random):
    x, y = random.uniform(0.5, 2, 3), np.array([0.0, 1.0, 0.0])
    check_gradient(ta.pow, x, y, device=device)


def test_zero_to_the_power_of_zero_has_finite_gradients(device):
    x = ta.tensor(0.0, requires_grad=True, device=device)
    y = ta.tensor(0.0, requires_grad=True, device=device)
    (x**y).backward()
    assert (x.grad.item(), y.grad.item()) == (0, 0)


def test_the_absolute_value_has_gradient_zero_at_zero(device):
    x = ta.tensor([-2.0, 0.0, 2.0], requires_grad=True, device=device)
    abs(x).backward(ta.tensor([3.0, 4.0, 5.0], device=device))
    assert x.grad.tolist() == [-3, 0, 5]


@pytest.mark.parametrize("name", [*BINARY, *UNARY])
def test_float32_stays_float32_in_both_directions(name, device):
    x = ta.tensor([1.0, 2.0], requires_grad=True, device=device)
    y = getattr(ta, name)(*[x, 2.0][: 1 if name in UNARY else 2])
    (g,) = ta.grad(y.sum(), x)
    assert y.dtype == g.dtype == np.float32


@pytest.mark.parametrize("dtypes", [("float32", "float64"), ("float64", "float32")])
@pytest.mark.parametrize("operation", [ta.add, ta.sub, ta.mul, ta.div, ta.power, ta.maximum])
def test_gradients_of_mixed_dtypes_are_as_accurate_as_those_of_the_wider_dtype(operation, dtypes):
    random = np.random.default_rng(0)
    arrays = [random.uniform(0.01, 3, 50).astype(dtype) for dtype in dtypes]
    cotangent = random.standard_normal(50)
    gradients = []
    for inputs in (arrays, [array.astype("float64") for array in arrays]):
        tensors = [ta.tensor(array, requires_grad=True) for array in inputs]
        operation(*tensors).backward(ta.tensor(cotangent))
        gradients.append([tensor.grad.numpy() for tensor in tensors])
    for mixed, wide, dtype in zip(*gradients, dtypes):
        assert mixed.dtype == dtype
        np.testing.assert_allclose(mixed, wide, rtol=4 * np.finfo(dtype).eps)
