"""The rules of tinyattn.ops.selection."""

import numpy as np
import pytest

import tinyattn as ta
from tests.gradient import check_gradient

PAIRS = [((), ()), ((2, 3), (2, 3)), ((2, 1), (3,)), ((), (2,)), ((0, 3), (1, 3)), ((2, 0), (1, 1))]


@pytest.fixture
def distinct(random):
    """``distinct(shape, ...)``: arrays without two close elements, so that differences cross no kink."""

    def draw(*shapes):
        sizes = [int(np.prod(shape)) for shape in shapes]
        numbers = random.permutation(sum(sizes)) / 4 - 1.1
        parts = np.split(numbers, np.cumsum(sizes)[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes)]

    return draw


@pytest.mark.parametrize("shapes", PAIRS)
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_the_larger_and_the_smaller(name, shapes, device, distinct):
    x, y = distinct(*shapes)
    z = getattr(ta, name)(ta.tensor(x, device=device), ta.tensor(y, device=device))
    np.testing.assert_array_equal(z.numpy(), getattr(np, name)(x, y))
    check_gradient(getattr(ta, name), x, y, device=device)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_a_tie_shares_the_cotangent_equally(name, device):
    x = ta.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device)
    y = ta.tensor([1.0, 3.0, 2.0], requires_grad=True, device=device)
    getattr(ta, name)(x, y).backward(ta.tensor([10.0, 20.0, 30.0], device=device))
    x_wins = [5, 0, 30] if name == "maximum" else [5, 20, 0]
    assert x.grad.tolist() == x_wins
    assert y.grad.tolist() == [10 - x_wins[0], 20 - x_wins[1], 30 - x_wins[2]]


@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize("first", [True, False])
def test_either_operand_may_be_a_number(name, first, device, random):
    operation = getattr(ta, name)
    function = (lambda x: operation(0.1, x)) if first else (lambda x: operation(x, 0.1))
    check_gradient(function, random.normal(size=5), device=device)
    assert function(ta.tensor([1.0, -1.0], device=device)).dtype == np.float32


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: ta.maximum(x, 0.0),
        lambda x: ta.minimum(0.0, x),
        lambda x: ta.clip(x, 0, 1),
        lambda x: ta.clip(x, None, 1),
        lambda x: ta.where(x == x, 0.0, x),
    ],
)
def test_nan_is_not_hidden(operation, device):
    assert np.isnan(operation(ta.tensor([np.nan], device=device)).item())


@pytest.mark.parametrize(
    "shapes",
    [((2, 3), (2, 3), (2, 3)), ((3,), (2, 1), (1, 3)), ((2, 1), (), (3,)), ((0,), (1,), ())],
)
def test_where_sends_the_cotangent_to_the_selected_input(shapes, device, random):
    condition = random.random(shapes[0]) < 0.5
    x, y = random.normal(size=shapes[1]), random.normal(size=shapes[2])
    mask = ta.tensor(condition, device=device)
    z = ta.where(mask, ta.tensor(x, device=device), ta.tensor(y, device=device))
    np.testing.assert_array_equal(z.numpy(), np.where(condition, x, y))
    check_gradient(lambda x, y: ta.where(mask, x, y), x, y, device=device)


def test_inputs_that_are_not_selected_may_be_infinite_or_nan(device):
    x = ta.tensor([1.0, np.nan], requires_grad=True, device=device)
    y = ta.tensor([np.inf, 2.0], requires_grad=True, device=device)
    z = ta.where(ta.tensor([True, False], device=device), x, y)
    z.backward(ta.tensor([1.0, np.inf], device=device))
    assert z.tolist() == [1, 2]
    assert x.grad.tolist() == [1, 0] and y.grad.tolist() == [0, np.inf]


def test_masked_fill_has_zero_gradient_where_it_fills(device, random):
    mask = ta.tensor([True, False, True], device=device)
    check_gradient(
        lambda x: ta.masked_fill(x, mask, 7.0).square(), random.normal(size=(2, 3)), device=device
    )
    x = ta.tensor([[1.0, 2.0, 3.0]], device=device)
    y = x.masked_fill(mask, -float("inf"))
    assert y.tolist() == [[-np.inf, 2, -np.inf]] and y.dtype == np.float32


def test_the_value_that_fills_may_be_a_tensor_with_a_gradient(device, random):
    mask = ta.tensor([True, False, True], device=device)
    check_gradient(
        lambda x, value: ta.masked_fill(x, mask, value).square(),
        random.normal(size=(2, 3)),
        random.normal(size=()),
        device=device,
    )


@pytest.mark.parametrize("name", ["maximum", "minimum", "clip"])
def test_either_operand_may_be_an_array(name, device, distinct):
    x, y = distinct((2, 3), (3,))
    operation, constant = getattr(ta, name), ta.tensor(y, device=device).data
    check_gradient(lambda x: operation(x, constant).square(), x, device=device)
    check_gradient(lambda x: operation(constant, x).square(), x, device=device)


def test_the_input_of_masked_fill_may_broadcast_to_the_mask(device):
    x = ta.tensor([1.0, 2.0], requires_grad=True, device=device)
    mask = ta.tensor([[True, False], [False, False], [False, True]], device=device)
    ta.masked_fill(x, mask, 0.0).sum().backward()
    assert x.grad.tolist() == [2, 2]


@pytest.mark.parametrize(("low", "high"), [(-0.5, 0.5), (None, 0.5), (-0.5, None), (0.5, -0.5)])
@pytest.mark.parametrize("shape", [(), (0,), (7,), (2, 3)])
def test_clip_limits_values_to_its_bounds(low, high, shape, device, random):
    data = random.normal(size=shape)
    np.testing.assert_array_equal(
        ta.clip(ta.tensor(data, device=device), low, high).numpy(), np.clip(data, low, high)
    )
    check_gradient(lambda x: x.clip(min=low, max=high).square(), data, device=device)


def test_clip_passes_the_cotangent_at_its_bounds(device):
    x = ta.tensor([-1.0, 0.0, 0.5, 1.0, 2.0], requires_grad=True, device=device)
    ta.clip(x, 0, 1).backward(ta.tensor([2.0, 3.0, 4.0, 5.0, 6.0], device=device))
    assert x.grad.tolist() == [0, 3, 4, 5, 0]


def test_the_bounds_of_clip_have_gradients(device, distinct):
    x, low = distinct((4, 5), (1, 5))
    check_gradient(ta.clip, x, low, low + 0.6, device=device)
    check_gradient(ta.clip, x, low, low - 0.6, device=device)  # the upper bound wins
    check_gradient(lambda x, low: ta.clip(x, min=low), x, low, device=device)
    check_gradient(lambda x, high: ta.clip(x, max=high), x, low, device=device)


def test_clip_without_bounds_is_an_error(device):
    with pytest.raises(ValueError, match="min, max"):
        ta.clip(ta.ones(2, device=device))
