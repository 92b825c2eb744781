"""Hard cases DM: gradients at the edges of domains and at ties are right, NaN propagates, integers have no gradient."""

import contextlib
import warnings

import numpy as np
import pytest

import tinyattn as ta

INF, NAN = np.inf, np.nan


@pytest.fixture(autouse=True, params=["kernels", "rules"])
def warnings_are_errors(request):
    """Each case runs on the kernels, where there are any, and on the rules, and warns in neither."""
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        warnings.simplefilter("error")
        if request.param == "rules":
            stack.enter_context(ta.reference())
        yield


def test_DM_01_the_double_where_form_keeps_the_gradient_finite(leaf, equals):
    x = leaf([0, 2, 3])
    safe = ta.where(x > 2, x, 1.0)
    ta.where(x > 2, ta.log(safe) / np.log(2.0), 2 * x).sum().backward()
    equals(x.grad, [2, 2, 0.48089835], decimals=8)


def test_DM_01_the_single_where_form_is_right_where_the_branch_is_defined(leaf, equals):
    x = leaf([0, 2, 3])
    with np.errstate(divide="ignore", invalid="ignore"):
        ta.where(x > 2, ta.log(x) / np.log(2.0), 2 * x).sum().backward()
    equals(x.grad[1:], [2, 0.48089835], decimals=8)
    # log of 0 has an infinite derivative, and 0 * inf is NaN: the known limit of the single form.
    assert np.isnan(x.grad.numpy()[0]) or x.grad.numpy()[0] == 2


def test_DM_02_where_selects_in_both_passes_and_multiplies_in_neither(
    leaf, constant, equals, device
):
    condition = ta.tensor([True, False], device=device)
    a, b = leaf([1, NAN]), leaf([NAN, 2])
    y = ta.where(condition, a, b)
    equals(y, [1, 2])
    y.backward(constant([1, INF]))
    equals(a.grad, [1, 0])
    equals(b.grad, [0, INF])
    ta.where(condition, a, b).backward(constant([INF, 1]))
    equals(a.grad, [INF, 0])
    equals(b.grad, [0, INF])


def test_DM_04_sqrt_at_zero_has_an_infinite_slope_and_passes_no_zero_cotangent(leaf, constant):
    x = leaf([0.0])
    y = ta.sqrt(x)
    y.backward(constant([1.0]), retain_graph=True)
    assert x.grad.tolist() == [INF]
    x.grad = None
    y.backward(constant([0.0]))
    assert x.grad.tolist() == [0]


def test_DM_05_the_square_of_a_norm_has_gradient_zero_at_zero(leaf, equals):
    w = leaf([0.5])
    y = ta.relu(w * -1.0)
    loss = 0.5 * ta.sqrt((y * y).sum()) ** 2
    loss.backward()
    equals(loss, 0)
    equals(w.grad, [0])


def test_DM_07_the_exponent_has_a_gradient_where_the_power_has_one(leaf, equals):
    for base, exponent, expected in ((0, 2, 0), (2, 3, 5.54517744)):
        p = leaf(exponent)
        (leaf(base) ** p).backward()
        equals(p.grad, expected, decimals=8)


def test_DM_07_a_negative_base_has_a_finite_gradient_although_that_of_the_exponent_is_nan(
    leaf, equals
):
    base, p = leaf(-2.0), leaf(2.0)
    with np.errstate(invalid="ignore"):
        (base**p).backward()
    equals(base.grad, -4)
    assert np.isnan(p.grad.item())
    base = leaf(-2.0)
    with np.errstate(all="raise"):  # no logarithm of a negative number is computed
        (base**2).backward()
    equals(base.grad, -4)


def test_DM_08_ties_share_the_gradient_equally(leaf, equals):
    for name, sign in (("max", 1.0), ("min", -1.0)):
        reduce = getattr(ta, name)
        x = leaf(sign * np.array([1.0, 3, 3, 0]))
        reduce(x).backward()
        equals(x.grad, [0, 0.5, 0.5, 0])
        x = leaf(sign * np.array([[2.0, 2], [1, 5]]))
        reduce(x, axis=1).sum().backward()
        equals(x.grad, [[0.5, 0.5], [0, 1]])
    for choose, sign in ((ta.maximum, 1.0), (ta.minimum, -1.0)):
        x, y = leaf(sign * np.array([1.0, 2])), leaf(sign * np.array([1.0, 3]))
        choose(x, y).sum().backward()
        equals(x.grad, [0.5, 0])
        equals(y.grad, [0.5, 1])


@pytest.mark.parametrize(
    "function",
    [
        ta.relu,
        lambda x: ta.clip(x, 0.0, 5.0),
        lambda x: ta.maximum(x, 0.0),
        lambda x: -ta.minimum(-x, 0.0),
    ],
)
def test_DM_10_nan_is_not_hidden(leaf, function):
    y = function(leaf([NAN, -1, 2])).numpy()
    assert np.isnan(y[0]) and y[1:].tolist() == [0, 2]


def test_DM_10_nan_is_not_hidden_backward_either(leaf, constant):
    x = leaf([NAN, -1, 2])
    ta.relu(x).backward(constant([5, 5, 5]))
    assert x.grad.tolist() == [5, 0, 5]


@pytest.mark.parametrize("name", ["max", "min", "sum", "prod", "mean"])
def test_DM_10_a_reduction_over_nan_is_nan(leaf, name):
    assert np.isnan(getattr(ta, name)(leaf([1.0, NAN, 2.0])).item())


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0, 2, 3], [6, 0, 0]), ([0, 0, 3], [0, 0, 0]), ([2, 0, 4], [0, 8, 0])],
)
def test_DM_11_a_product_with_zeros_divides_by_none(leaf, equals, values, expected):
    x = leaf(values)
    ta.prod(x).backward()
    equals(x.grad, expected)
    x = leaf([values, [1, 2, 3]])
    ta.prod(x, axis=1).sum().backward()
    equals(x.grad, [expected, [6, 3, 2]])


def test_DM_13_the_deviation_of_equal_values_has_gradient_zero(leaf, equals):
    x = leaf([2, 2, 2])
    ta.std(x).backward()
    equals(x.grad, [0, 0, 0])
    x = leaf([1, 2, 4])
    deviation = ta.std(x, ddof=0)
    deviation.backward()
    equals(deviation, 1.24721913, decimals=8)
    equals(x.grad, [-0.35634832, -0.08908708, 0.44543541], decimals=7)


@pytest.mark.parametrize(
    ("values", "expected", "gradient"),
    [
        ([-INF, -INF], -INF, [0, 0]),
        ([-INF, 1], 1, [0, 1]),
        ([1000, 1000], 1000.69314718, [0.5, 0.5]),
    ],
)
def test_DM_14_log_sum_exp_of_infinities_has_no_nan(leaf, equals, values, expected, gradient):
    x = leaf(values)
    y = ta.logsumexp(x)
    equals(y, expected, decimals=8)
    y.backward()
    equals(x.grad, gradient)


def test_DM_17_integers_have_no_gradient(device):
    for data in ([1, 2, 3], np.array([1, 2, 3]), [True, False]):
        with pytest.raises(TypeError, match="cannot require a gradient"):
            ta.tensor(data, requires_grad=True, device=device)
    x = ta.tensor([1, 2, 3], device=device)
    y = 0.5 * x
    assert y.dtype == np.float32 and y.tolist() == [0.5, 1, 1.5] and not y.requires_grad


def test_DM_19_the_sigmoid_saturates_without_overflow(leaf, equals):
    x = leaf([-1000, 0, 1000])
    y = ta.sigmoid(x)
    y.sum().backward()
    equals(y, [0, 0.5, 1])
    equals(x.grad, [0, 0.25, 0])


@pytest.mark.parametrize("name", ["tanh", "gelu", "silu", "erf", "relu", "softmax", "log_softmax"])
def test_DM_19_no_activation_warns_or_gives_nan_far_from_zero(leaf, name):
    x = leaf([-1e4, 0, 1e4])
    y = getattr(ta, name)(x)
    y.backward(ta.Tensor(np.array([1.0, -2.0, 0.5]), device=x.device))
    assert np.all(np.isfinite(y.numpy())) and np.all(np.isfinite(x.grad.numpy()))
