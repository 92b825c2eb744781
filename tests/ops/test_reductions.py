"""The rules of tinyattn.ops.reductions."""

import numpy as np
import pytest

import tinyattn as ta
from tests.gradient import check_gradient

# Shapes with the axes to reduce over.
REDUCTIONS = [
    ((), None),
    ((), ()),
    ((1,), 0),
    ((3,), None),
    ((2, 3), 0),
    ((2, 3), -1),
    ((2, 3), ()),
    ((2, 3, 2), (0, -1)),
    ((2, 3, 2), (-1, -3)),
    ((2, 1, 3), 1),
]
EMPTY = [((0,), None), ((2, 0), 1), ((0, 3), 0), ((0, 3), 1)]
keepdims = pytest.mark.parametrize("keepdims", [False, True])


@pytest.fixture
def distinct(random):
    """``distinct(shape)``: numbers no two of which are close, none of them 0."""
    return lambda shape: (random.permutation(int(np.prod(shape))) / 4 - 1.1).reshape(shape)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min", "var", "std"])
@pytest.mark.parametrize(("shape", "axis"), REDUCTIONS)
@keepdims
def test_values_equal_numpy_and_gradients_equal_differences(
    name, shape, axis, keepdims, device, distinct
):
    data = distinct(shape)
    function = getattr(ta, name)
    actual = function(ta.tensor(data, device=device), axis=axis, keepdims=keepdims)
    expected = np.asarray(getattr(np, name)(data, axis=axis, keepdims=keepdims))
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-14, atol=1e-15)
    if name == "std" and np.size(expected) and np.min(expected) == 0:
        return  # one element: there is no derivative, another test says what is taken
    check_gradient(lambda x: function(x, axis=axis, keepdims=keepdims), data, device=device)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "var", "std"])
@pytest.mark.parametrize(("shape", "axis"), EMPTY)
def test_no_elements(name, shape, axis, device):
    x = ta.tensor(np.zeros(shape), requires_grad=True, device=device)
    y = getattr(x, name)(axis=axis)
    empty = {"sum": 0.0, "prod": 1.0}.get(name, np.nan)
    np.testing.assert_array_equal(y.numpy(), np.full(y.shape, empty))
    y.backward(ta.ones_like(y))
    assert x.grad.shape == shape


@pytest.mark.parametrize("name", ["max", "min"])
def test_the_maximum_of_no_elements_is_an_error(name, device):
    with pytest.raises(ValueError):
        getattr(ta.zeros((2, 0), device=device), name)(axis=1)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min", "var", "std"])
def test_methods_and_transposed_inputs_give_the_same(name, device, distinct):
    check_gradient(lambda x: getattr(x.T, name)(0), distinct((3, 2)), device=device)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min", "var", "std", "cumsum"])
def test_float32_stays_float32_in_both_directions(name, device):
    x = ta.tensor([1.0, 2.0, 2.0], requires_grad=True, device=device)
    y = getattr(x, name)()
    (g,) = ta.grad(y, x, grad_outputs=ta.ones_like(y), create_graph=True)
    assert y.dtype == g.dtype == np.float32


@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_integers_have_a_float32_mean(name, device):
    y = getattr(ta.arange(4, device=device), name)()
    assert y.dtype == np.float32
    assert y.item() == np.float32(getattr(np.arange(4), name)())


@pytest.mark.parametrize("name", ["sum", "mean"])
def test_float16_is_summed_in_float32(name, device):
    # In float16 4096 + 1 is 4096: summed one by one, as NumPy sums rows, the ones would vanish.
    x = ta.tensor(np.array([[4096.0] * 2] + [[1.0] * 2] * 64, np.float16), device=device)
    y = getattr(x, name)(axis=0)
    assert y.dtype == np.float16
    assert y.tolist() == [np.float16(4160 if name == "sum" else 64)] * 2


def test_an_axis_that_does_not_exist_is_an_error(device):
    for name in ("sum", "mean", "max", "var", "prod", "cumsum"):
        with pytest.raises(IndexError, match="2"):
            getattr(ta.ones((2, 3), device=device), name)(axis=2)
    with pytest.raises(ValueError):
        ta.ones((2, 3), device=device).mean(axis=(0, -2))


@pytest.mark.parametrize("ddof", [0, 1, 2])
@pytest.mark.parametrize("name", ["var", "std"])
def test_var_and_std_divide_by_the_degrees_of_freedom(name, ddof, device, random):
    data = random.normal(size=(3, 4))
    y = getattr(ta.tensor(data, device=device), name)(axis=1, ddof=ddof)
    np.testing.assert_allclose(y.numpy(), getattr(np, name)(data, axis=1, ddof=ddof))
    check_gradient(lambda x: getattr(x, name)(axis=1, ddof=ddof), data, device=device)


@pytest.mark.parametrize("ddof", [1, 2])
def test_var_without_degrees_of_freedom_is_not_a_number_and_raises_nothing(ddof, device):
    x = ta.tensor([2.0], requires_grad=True, device=device)
    y = x.var(ddof=ddof)
    assert np.isnan(y.item())
    y.backward()
    assert np.isnan(x.grad.item())


@pytest.mark.parametrize("value", [0.1, 2.0, 1e8 / 3, 0.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_elements_have_no_deviation_and_gradient_zero(value, dtype, device):
    x = ta.tensor(np.full((2, 7), value, dtype), requires_grad=True, device=device)
    y = x.std(axis=1)
    y.backward(ta.tensor([1.0, -3.0], dtype=dtype, device=device))
    assert y.tolist() == [0, 0]
    assert x.grad.tolist() == [[0] * 7] * 2


def test_the_variance_of_large_numbers_with_small_differences_is_accurate(device):
    data = (10000 + np.arange(64) * 1e-3).astype(np.float32)
    y = ta.tensor(data, device=device).var()
    assert y.dtype == np.float32
    np.testing.assert_allclose(y.item(), data.astype(np.float64).var(), rtol=1e-6)


@pytest.mark.parametrize(
    "data",
    [
        [2.0, 0.0, 4.0],
        [0.0, 0.0, 3.0],
        [0.0, 0.0, 0.0],
        [[1.0, 0.0], [0.0, 0.0], [2.0, 3.0]],
        [[0.0, 2.0, 0.0, 3.0, -1.0]],
    ],
)
@pytest.mark.parametrize("axis", [None, -1])
def test_the_product_has_exact_gradients_at_zeros_also_of_second_order(data, axis, device):
    check_gradient(lambda x: ta.prod(x, axis), data, device=device)


def test_the_product_of_numbers_too_large_for_their_product(device):
    x = ta.tensor([1e30, 1e30, 1e-30], requires_grad=True, device=device)
    x.prod().backward()
    np.testing.assert_allclose(x.grad.numpy(), [1, 1, np.inf])


@pytest.mark.parametrize("name", ["max", "min"])
def test_ties_share_the_cotangent_equally(name, device):
    sign = 1 if name == "max" else -1
    data = sign * np.array([[2.0, 2.0, 0.0], [1.0, 5.0, 3.0], [4.0, 4.0, 4.0]], np.float32)
    x = ta.tensor(data, requires_grad=True, device=device)
    getattr(x, name)(axis=1).backward(ta.tensor([1.0, 10.0, 6.0], device=device))
    assert x.grad.tolist() == [[0.5, 0.5, 0], [0, 10, 0], [2, 2, 2]]


@pytest.mark.parametrize("name", ["max", "min"])
def test_nan_is_the_largest_and_the_smallest_and_has_the_gradient(name, device):
    x = ta.tensor([[1.0, np.nan], [3.0, 4.0]], requires_grad=True, device=device)
    y = getattr(x, name)(axis=1)
    y.backward(ta.tensor([2.0, 0.0], device=device))
    assert np.isnan(y.numpy()[0])
    assert x.grad.tolist() == [[0, 2], [0, 0]]


def test_an_infinite_cotangent_stays_with_the_largest(device):
    x = ta.tensor([1.0, 2.0], requires_grad=True, device=device)
    x.max().backward(ta.tensor(np.inf, device=device))
    assert x.grad.tolist() == [0, np.inf]


@pytest.mark.parametrize(
    ("shape", "axis"), [((), None), ((4,), 0), ((2, 3), None), ((2, 3), -1), ((2, 3), 0), ((0,), 0)]
)
def test_cumsum(shape, axis, device, random):
    data = random.normal(size=shape)
    y = ta.cumsum(ta.tensor(data, device=device), axis)
    np.testing.assert_allclose(y.numpy(), np.cumsum(data, axis))
    check_gradient(lambda x: ta.cumsum(x, axis).square(), data, device=device)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_argmax_and_argmin_are_integers_without_gradient(name, axis, device, random):
    data = random.integers(0, 3, size=(3, 4)).astype(np.float32)
    x = ta.tensor(data, requires_grad=True, device=device)
    y = getattr(x, name)(axis)
    np.testing.assert_array_equal(y.numpy(), getattr(np, name)(data, axis))
    assert y.dtype == np.int64 and not y.requires_grad


@pytest.mark.parametrize("name", ["mean", "var", "std", "softmax", "log_softmax", "logsumexp"])
@pytest.mark.parametrize("reference", [False, True])
def test_sums_of_float16_leave_its_range_only_if_the_result_does(device, name, reference):
    x = np.tile([0.0, 100.0], 1000).astype(np.float16)  # their sum is 100000, float16 ends at 65504
    if "soft" in name or "log" in name:
        x = np.zeros(70000, np.float16)
    with ta.reference() if reference else ta.enable_grad():
        y = getattr(ta, name)(ta.tensor(x, device=device))
    expected = getattr(ta, name)(ta.tensor(x.astype(np.float64))).numpy()
    assert y.dtype == np.float16
    np.testing.assert_allclose(y.numpy().astype(np.float64), expected, rtol=2e-3)


def test_gradients_of_float16_are_summed_in_float32(device):
    x = ta.tensor(np.zeros((1, 2), np.float16), requires_grad=True, device=device)
    ones = ta.tensor(np.ones((5000, 2), np.float16), device=device)
    (x + ones).backward(ones)  # counting by ones, float16 ends at 2048
    assert x.grad.tolist() == [[5000, 5000]] and x.grad.dtype == np.float16


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, bool])
def test_small_integer_dtypes_neither_overflow_nor_become_float16(device, dtype):
    x = np.array([3, 1, 0, 1]).astype(dtype)
    for f, expected in (
        (ta.var, x.astype(np.float64).var()),
        (ta.std, x.astype(np.float64).std()),
        (ta.exp, np.exp(x.astype(np.float64))),
        (ta.softmax, np.exp(x.astype(np.float64)) / np.exp(x.astype(np.float64)).sum()),
    ):
        y = f(ta.tensor(x, device=device))
        assert y.dtype == np.float32
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(
    ("name", "value", "slope"),
    [
        ("sum", 3.0, 1.0),
        ("mean", 3.0, 1.0),
        ("prod", 3.0, 1.0),
        ("max", 3.0, 1.0),
        ("min", 3.0, 1.0),
        ("logsumexp", 3.0, 1.0),
        ("var", 0.0, 0.0),
        ("std", 0.0, 0.0),
    ],
)
def test_a_scalar_may_be_reduced_along_axis_0(name, value, slope, axis, keepdims, device):
    """As NumPy's sum(3.0, axis=-1) does, and backward as forward."""
    x = ta.tensor(3.0, requires_grad=True, device=device)
    y = getattr(ta, name)(x, axis=axis, keepdims=keepdims)
    assert y.shape == () and y.item() == value
    y.backward()
    assert x.grad.item() == slope and x.grad.shape == ()
    with pytest.raises(np.exceptions.AxisError):
        getattr(ta, name)(x, axis=1)


def test_the_deviation_of_a_constant_row_is_flat_in_the_second_order_too(device):
    x = ta.tensor([[2.0, 2.0, 2.0], [1.0, 2.0, 3.0]], requires_grad=True, device=device)
    (first,) = ta.grad(ta.std(x, axis=1).sum(), [x], create_graph=True)
    direction = ta.tensor([[1.0, 2.0, 4.0]] * 2, device=device)
    (second,) = ta.grad(first, [x], direction)
    assert first.tolist()[0] == second.tolist()[0] == [0.0, 0.0, 0.0]
    assert any(second.tolist()[1])


@pytest.mark.parametrize("size", [1e-30, 1e19, 1e37])
def test_the_deviation_of_numbers_whose_squares_leave_float32(size, device):
    x = ta.tensor([-size, size, -size, size], dtype="float32", requires_grad=True, device=device)
    y = ta.std(x)
    y.backward()
    assert y.item() == pytest.approx(size)
    assert x.grad.tolist() == pytest.approx([-0.25, 0.25, -0.25, 0.25])
