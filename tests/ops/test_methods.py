"""The operators and methods that tinyattn.ops.methods attaches to Tensor."""

import numpy as np
import pytest

import tinyattn as ta
from tests.gradient import check_gradient
from tinyattn.ops import methods

OPERATORS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "**": lambda a, b: a**b,
    "@": lambda a, b: a @ b,
}


@pytest.mark.parametrize("sign", OPERATORS)
def test_operators_between_tensors_and_with_an_array_on_either_side(sign, device, random):
    operator = OPERATORS[sign]
    a, b = random.uniform(0.5, 2, (2, 2)), random.uniform(0.5, 2, (2, 2))
    constant = ta.tensor(b, device=device).data
    check_gradient(operator, a, b, device=device)
    check_gradient(lambda x: operator(x, constant), a, device=device)
    check_gradient(lambda x: operator(constant, x), a, device=device)


@pytest.mark.parametrize("sign", [sign for sign in OPERATORS if sign != "@"])
@pytest.mark.parametrize("number", [2, 1.5, np.float64(1.5), np.int64(2)])
def test_numbers_on_either_side_take_the_tensors_dtype(sign, number, device):
    operator = OPERATORS[sign]
    x = ta.tensor([1.0, 2.0], requires_grad=True, device=device)
    for y, expected in (
        (operator(x, number), operator(np.array([1.0, 2.0]), number)),
        (operator(number, x), operator(number, np.array([1.0, 2.0]))),
    ):
        assert type(y) is ta.Tensor and y.dtype == np.float32
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)
        (g,) = ta.grad(y.sum(), x)
        assert g.dtype == np.float32


@pytest.mark.parametrize("other", [None, "a", {}, set()])
@pytest.mark.parametrize("sign", OPERATORS)
def test_an_unsupported_operand_returns_not_implemented(sign, other, device):
    x = ta.ones((2, 2), device=device)
    for operands in ((x, other), (other, x)):
        with pytest.raises(TypeError):
            OPERATORS[sign](*operands)


def test_unary_operators(device, random):
    check_gradient(lambda x: -x * abs(x) + x, random.normal(size=4), device=device)


def test_an_operator_in_place_makes_a_new_tensor_and_leaves_the_old_one(device):
    x = ta.tensor([1.0, 2.0], requires_grad=True, device=device)
    y = x
    y *= 3
    y += x
    y /= 2
    y -= 1
    y **= 2
    assert x.tolist() == [1, 2] and y is not x
    y.sum().backward()
    assert x.grad.tolist() == [4, 12]  # y = (2x - 1)^2


def test_an_in_place_operator_of_an_array_with_a_tensor_is_an_error():
    array = np.ones(2, np.float32)
    with pytest.raises(TypeError, match="Tensor"):
        array += ta.tensor([1.0, 2.0], requires_grad=True)


def test_every_method_is_the_function_of_its_name():
    for name, operation in methods.METHODS.items():
        method = getattr(ta.Tensor, name)
        assert method.__doc__ == operation.__doc__
        assert method.__name__ == getattr(operation, "name", operation.__name__)


@pytest.mark.parametrize(
    "name",
    "astype clip cumsum flatten max mean min prod ravel reshape squeeze std sum swapaxes take "
    "transpose var argmax argmin item tolist T mT shape ndim size dtype".split(),
)
def test_tensors_have_the_methods_of_numpy_arrays(name):
    assert hasattr(np.ndarray, name) and hasattr(ta.Tensor, name)


def test_parameters_may_be_given_by_position_or_by_name(device):
    x = ta.tensor([[1.0, 5.0], [3.0, 4.0]], device=device)
    assert x.sum(0, True).tolist() == x.sum(axis=0, keepdims=True).tolist() == [[4, 9]]
    assert x.var(0, 1).tolist() == x.var(axis=0, ddof=1).tolist() == [2, 0.5]
    assert x.clip(2, 4).tolist() == x.clip(min=2, max=4).tolist() == [[2, 4], [3, 4]]
    assert x.swapaxes(0, 1).tolist() == ta.swapaxes(x, axis1=0, axis2=1).tolist()


def test_an_unknown_argument_is_an_error(device):
    with pytest.raises(TypeError, match="dim"):
        ta.ones(2, device=device).sum(dim=0)


def test_pytorchs_names_raise_errors_that_name_numpys():
    x = ta.ones((2, 3))
    with pytest.raises(
        AttributeError, match=r"'Tensor' object has no attribute 'unsqueeze'.*use expand_dims"
    ):
        x.unsqueeze(0)
