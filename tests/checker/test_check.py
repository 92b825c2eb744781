"""ta.gradcheck: what it accepts, what it refuses, and what it says."""

import warnings
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.autograd import PRIMITIVES, primitive
from tinyattn.checker import GradcheckWarning, gradient_report

GradcheckError = ta.GradcheckError


@pytest.fixture
def x(random, device):
    return ta.tensor(random.standard_normal((3, 4)), device=device)


@pytest.fixture
def wrong_cube():
    """A primitive x**3 whose backward is a thousandth too large in one place."""

    @primitive
    def wrong_cube(x, /):
        return x * x * x

    @wrong_cube.vjp
    def wrong_cube_vjp(g, _out, x):
        right = 3 * g * x * x
        scale = np.ones(x.shape)
        scale[1, 2] = 1.001
        return right * scale

    yield wrong_cube
    del PRIMITIVES["wrong_cube"]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("mode", ["full", "directional"])
def test_a_right_gradient_passes(x, mode, order):
    assert ta.gradcheck(ta.softmax, x, mode=mode, order=order, rtol=1e-6, atol=1e-8) is True


def test_the_error_says_all_that_is_needed_to_reproduce_it(wrong_cube, random):
    x = ta.tensor(random.standard_normal((3, 4)))
    with pytest.raises(GradcheckError) as caught:
        ta.gradcheck(wrong_cube, [x], seed=5)
    error = caught.value
    assert (error.op, error.argument, error.index, error.seed) == (
        "wrong_cube",
        "inputs[0]",
        (1, 2),
        5,
    )
    assert error.analytic == pytest.approx(1.001 * error.numeric, rel=1e-6)
    assert error.report.arguments[0].failures == 1
    names = {"ta": ta, "np": np, "wrong_cube": wrong_cube}
    with pytest.raises(GradcheckError, match=r"worst at +\[1, 2\]") as again:
        eval(error.call, names)
    assert again.value.analytic == error.analytic


def test_the_element_is_found_along_random_directions_too(wrong_cube, random):
    x = ta.tensor(random.standard_normal((3, 4)))
    with pytest.raises(GradcheckError, match="1 of 12 elements, found by bisection") as caught:
        ta.gradcheck(wrong_cube, x, mode="fast")
    assert caught.value.index == (1, 2)


def test_the_operation_at_fault_is_found_in_a_function_of_many(wrong_cube, random):
    x = ta.tensor(random.standard_normal((3, 4)))
    with pytest.raises(GradcheckError, match="wrong on its own") as caught:
        ta.gradcheck(lambda x: ta.softmax(wrong_cube(ta.sin(x)) + x), x)
    assert caught.value.op == "wrong_cube"


def test_where_every_operation_is_right_the_graph_was_left(x):
    with pytest.raises(GradcheckError, match=r"leaves the graph: detach"):
        ta.gradcheck(lambda x: ta.exp(x) * x.detach(), x)


def test_a_wrong_second_derivative_is_seen_by_order_2_only(x):
    def detached_slope(x):
        """x**2, by a backward that hides its dependence on x from the second order."""
        return (x.detach() * x * 2) - (x * x).detach()

    assert ta.gradcheck(detached_slope, x, atol=1e9)  # values agree with any tolerance
    right = PRIMITIVES["square"].vjps[0]
    try:
        PRIMITIVES["square"]._register_vjp(
            0, lambda g, _out, x: g * 2 * x.detach() if hasattr(x, "detach") else g * 2 * x
        )
        assert ta.gradcheck(ta.square, x)
        with pytest.raises(GradcheckError, match="second-order gradient"):
            ta.gradcheck(ta.square, x, order=2)
    finally:
        PRIMITIVES["square"]._register_vjp(0, right)


def test_nested_containers_keep_their_kind(device, random):
    Pair = namedtuple("Pair", "left right")

    @dataclass
    class Settings:
        weight: ta.Tensor
        power: int

    def fn(pair, settings, table):
        assert isinstance(pair, Pair) and isinstance(settings, Settings) and settings.power == 2
        y = pair.left * pair.right[0] + settings.weight**settings.power
        return {"y": y, "z": [ta.exp(table["bias"]), y * 2]}

    def draw():
        return ta.tensor(random.standard_normal(3), device=device)

    inputs = (Pair(draw(), [draw()]), Settings(draw(), 2), {"bias": draw()})
    report = gradient_report(fn, inputs, order=2)
    assert report.passed
    assert [argument.name for argument in report.arguments[:4]] == [
        "inputs[0].left",
        "inputs[0].right[0]",
        "inputs[1].weight",
        "inputs[2]['bias']",
    ]


def test_arrays_are_checked_and_whole_numbers_passed_on(device):
    def pick(x, ids):
        assert isinstance(ids, np.ndarray)
        return x[ids]

    with ta.device(device):
        table = ta.tensor(np.eye(3), device=device)
        assert ta.gradcheck(pick, (table, np.array([0, 0, 2])))
    assert ta.gradcheck(lambda x: x * x, np.array([1.0, -2.0]))


def test_only_tensors_that_require_a_gradient_are_checked_if_any_does(x):
    wanted = ta.tensor(np.ones(4), requires_grad=True, device=x.device)
    report = gradient_report(ta.mul, (x, wanted))
    assert [argument.name for argument in report.arguments] == ["inputs[1]"]


def test_parameters_outside_the_inputs_are_checked_and_come_back_to_the_bit(x):
    weight = ta.tensor(np.full((4, 2), 0.1), requires_grad=True, device=x.device)
    own, before = weight._data, weight.numpy()
    report = gradient_report(lambda x: x @ weight, x, params={"weight": weight}, order=2)
    assert report.passed and "weight" in [argument.name for argument in report.arguments]
    assert weight._data is own and weight.numpy().tobytes() == before.tobytes()
    assert weight.grad is None


def test_parameters_come_back_when_the_function_raises(x):
    weight = ta.tensor(np.ones(4), device=x.device)
    own = weight._data
    with pytest.raises(ZeroDivisionError):
        ta.gradcheck(lambda x: 1 / 0, x, params=[weight])
    assert weight._data is own and not weight.requires_grad


def test_inputs_are_never_written_to(x):
    before, version = x.numpy(), x._version[0]
    ta.gradcheck(ta.tanh, x, order=2)
    assert x.numpy().tobytes() == before.tobytes() and x._version[0] == version
    assert x.grad is None and not x.requires_grad


def test_float32_parameters_are_held_against_float64_and_left_as_they_are(x):
    weight = ta.tensor(np.ones(4, np.float32), device=x.device)
    report = gradient_report(lambda x: x * weight, x, params={"weight": weight})
    assert report.verdict == "right" and report.arguments[1].precision.dtype == "float32"
    assert ta.gradcheck(lambda x: x * weight, x, params={"weight": weight}, upcast=True)
    assert weight.dtype == np.float32


def test_a_function_that_works_in_float32_inside_is_found_out(x):
    with pytest.raises(GradcheckError, match="less than float64"):
        ta.gradcheck(lambda x: x.astype("float32"), x)


def test_a_function_that_changes_its_input_is_found_out(x):
    def in_place(x):
        x._data[0] = 7.0
        return x * x

    before = x.numpy()
    with pytest.raises(GradcheckError, match="changes its input inputs in place"):
        ta.gradcheck(in_place, x)
    assert x.numpy().tobytes() == before.tobytes()


def test_a_gradient_cut_off_from_the_graph_is_wrong(x):
    with pytest.raises(GradcheckError, match=r"analytic +0"):
        ta.gradcheck(lambda x: ta.tensor(x.numpy() ** 2, device=x.device), x)


def test_an_input_without_influence_is_reported(x):
    with pytest.warns(GradcheckWarning, match=r"inputs\[1\] has no influence"):
        assert ta.gradcheck(lambda x, y: x * x, (x, x))
    with pytest.raises(GradcheckError, match="none of the inputs has any influence"):
        ta.gradcheck(lambda x: ta.tensor(np.ones(3), device=x.device), x)


@pytest.mark.parametrize("linear", [ta.sum, ta.mean, lambda x: 2 * x, lambda x: x[:1]])
def test_a_linear_function_is_no_reason_to_warn_at_second_order(x, linear):
    """Its gradient does not depend on the input, and the differences say so too."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ta.gradcheck(linear, x, order=2)
    report = gradient_report(linear, x, order=2)
    assert [(a.order, a.has_influence) for a in report.arguments[:2]] == [(1, True), (2, False)]


def test_an_array_of_the_other_byte_order_is_checked(random):
    numbers = random.standard_normal(3)
    assert ta.gradcheck(ta.tanh, numbers.astype(numbers.dtype.newbyteorder("S")), order=2)


def test_an_exactly_zero_gradient_passes_without_a_fixed_absolute_tolerance(device, random):
    """Softmax does not see a shift, so that the gradient of a bias on all scores is 0, but for rounding."""
    scores = ta.tensor(random.standard_normal((3, 5)), device=device)
    shift = ta.tensor(np.zeros((3, 1)), device=device)
    report = gradient_report(lambda s, b: ta.softmax(s + b), (scores, shift), rtol=1e-6, atol=1e-8)
    assert report.passed and report.arguments[1].absolute_error < 1e-12


def test_a_small_slope_of_a_large_value_is_checked(device):
    x = ta.tensor(np.array([0.3, 0.7]), device=device)
    assert ta.gradcheck(lambda x: 1e6 + ta.sin(x) * 1e-3, x, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"mode": "quick"}, "mode is 'quick'"),
        ({"order": 3}, "order is 3"),
        ({"eps": 0.0}, "expected a positive step"),
        ({"rtol": -1e-5}, "rtol is -1e-05: expected a tolerance of at least 0"),
        ({"atol": float("nan")}, "atol is nan"),
        ({"mode": "directional", "directions": 0}, "without any nothing is checked"),
        ({"oracle": "guess"}, "oracle is 'guess'"),
        ({"oracle": "complex", "order": 2}, "needs order=1"),
        ({"cotangent": np.ones(2)}, "expected those of the outputs"),
    ],
)
def test_settings_that_do_not_exist_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ta.gradcheck(ta.tanh, np.ones(3), **settings)


def test_nothing_to_check_is_refused():
    with pytest.raises(TypeError, match="nothing to check"):
        ta.gradcheck(lambda n: ta.tensor(float(n)), 3)
    with pytest.raises(TypeError, match="expected a floating-point Tensor"):
        ta.gradcheck(lambda x: x.shape, np.ones(3))


def test_the_cotangent_is_not_the_data_drawn_from_the_same_seed():
    """x2 g1 - x1 g2 would vanish, and with it the check."""
    seen = []

    def spy(x):
        x.requires_grad and (x * 1).register_hook(seen.append)
        y = x * 1
        y.register_hook(lambda g: seen.append(g.numpy()))
        return y

    data = np.random.default_rng(0).standard_normal(6)
    ta.gradcheck(spy, data, seed=0)
    assert np.abs(seen[0] - data).max() > 0.1


def test_a_check_inside_no_grad_is_a_check_all_the_same(x):
    with ta.no_grad():
        assert gradient_report(ta.softmax, x).arguments[0].has_influence


def test_a_function_that_asks_for_gradients_itself_is_checked(device):
    def penalty(x):
        (slope,) = ta.grad((x * x * x).sum(), x, create_graph=True)
        return (slope * slope).sum()

    assert ta.gradcheck(penalty, ta.tensor(np.array([0.5, -1.5]), device=device))


def test_warnings_are_not_raised_where_all_is_well(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ta.gradcheck(ta.softmax, x, order=2)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("mode", ["full", "fast"])
def test_a_gradient_that_is_not_finite_where_the_slope_is_finite_is_wrong(mode, value, random):
    def backward(g, x):
        return np.where(np.arange(x.size) == 2, value, g * np.cos(x))

    with pytest.raises(ta.GradcheckError, match="is wrong") as caught:
        ta.gradcheck((np.sin, backward), [random.standard_normal(4)], mode=mode)
    assert caught.value.index == (2,)


def test_an_infinite_gradient_of_an_infinite_slope_is_not_called_wrong():
    def backward(g, x):
        with np.errstate(divide="ignore"):
            return g / (3 * np.cbrt(x) ** 2)

    exp = (np.exp, lambda g, x: g * np.exp(x))
    for mode in ("full", "fast"):
        report = gradient_report((np.cbrt, backward), [np.array([0.0, 1.0])], mode=mode)
        assert report.verdict == "cannot tell"
        with np.errstate(over="ignore"):
            report = gradient_report(exp, [np.array([1000.0, 1.0])], mode=mode)
        assert report.verdict == "cannot tell"
