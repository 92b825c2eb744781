"""Differences, extrapolation, kinks and the complex step."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.checker import GradcheckInconclusive, GradcheckWarning, gradient_report
from tinyattn.checker.ladder import kink_at, slope_of
from tinyattn.checker.numeric import Line


def line(f, x):
    return Line(lambda t: [np.asarray(f(x + t))], [np.ones(np.shape(f(x)))])


FUNCTIONS = {
    "exp": (np.exp, np.exp),
    "sin": (np.sin, np.cos),
    "tanh": (np.tanh, lambda x: 1 / np.cosh(x) ** 2),
    "log": (np.log, lambda x: 1 / x),
    "reciprocal": (lambda x: 1 / x, lambda x: -1 / x**2),
    "sqrt": (np.sqrt, lambda x: 0.5 / np.sqrt(x)),
    "relu": (lambda x: np.maximum(x, 0), lambda x: float(x > 0)),
    "1 + relu": (lambda x: 1 + np.maximum(x, 0), lambda x: float(x > 0)),
    "cube": (lambda x: x**3, lambda x: 3 * x * x),
    "ripple": (lambda x: 1 + 1e-3 * np.cos(1000 * x), lambda x: -np.sin(1000 * x)),
    "logistic": (lambda x: 1 / (1 + np.exp(-x)), lambda x: 1 / (2 + np.exp(x) + np.exp(-x))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_error_bar_holds_at_all_scales(name, random):
    f, derivative = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        for exponent in np.linspace(-8, 8, 60):
            x = 10**exponent * random.standard_normal()
            if not (np.isfinite(f(x)) and np.isfinite(derivative(x))):
                continue
            largest = 2.0 ** np.floor(np.log2(max(1.0, abs(x)))) / 4
            smallest = max(2.0**-24 * min(1, abs(x)), 64 * np.spacing(abs(x)))
            ladder = slope_of(line(f, x), largest, smallest)
            assert abs(ladder.slope - derivative(x)) <= 5 * ladder.error_bar, (x, ladder)


@pytest.mark.parametrize("name, x", [("exp", 1.0), ("tanh", 0.3), ("log", 1e-3)])
def test_extrapolation_is_far_more_accurate_than_one_difference(name, x):
    f, derivative = FUNCTIONS[name]
    with np.errstate(invalid="ignore"):
        ladder = slope_of(line(f, x))
    exact = derivative(x)
    assert abs(ladder.slope - exact) <= ladder.error_bar < 1e-11 * max(1, abs(exact))


def test_a_ladder_stops_where_it_is_accurate_enough():
    ladder = slope_of(line(np.sin, 0.5), accepts=lambda slope, bar: bar < 1e-6)
    assert len(ladder.steps) == 4 and ladder.error_bar < 1e-6


def test_a_plateau_at_the_scale_of_the_large_steps_is_rejected():
    """x/2 + relu(x), at a distance of 1e-6 from the kink: the large steps see the slope 1, the small ones 1.5."""
    ladder = slope_of(line(lambda x: 1 + x / 2 + np.maximum(x, 0), 1e-6), smallest=1e-10)
    assert abs(ladder.slope - 1.5) <= ladder.error_bar


def test_extrapolation_gives_up_where_the_function_is_nowhere_finite():
    with np.errstate(invalid="ignore"):
        ladder = slope_of(line(np.sqrt, -1.0), 0.1)
    assert np.isnan(ladder.slope) and ladder.error_bar == np.inf


def test_infinite_outputs_that_do_not_change_leave_no_nan():
    assert line(lambda t: np.array([np.inf, -np.inf, 2 * t]), 0.5).central(1e-3) == pytest.approx(2)


def test_outputs_that_do_not_depend_on_the_element_add_no_rounding():
    def f(t):
        return np.array([1e12, 1e-3 * t])

    assert line(f, 0.5).slopes(2.0**-10)[3] < 1e-15
    assert line(lambda t: f(t).sum(), 0.5).slopes(2.0**-10)[3] > 1e-3


def test_an_output_whose_change_is_lost_in_its_rounding_still_counts():
    """1 + t changes by nothing at a step of 1e-17: the difference is 0, with an error bar far above."""
    one = line(lambda t: 1 + t, 0.0)
    one.slopes(0.25)
    assert one.slopes(2.0**-60)[0] == 0 and one.slopes(2.0**-60)[3] > 1


@pytest.mark.parametrize(
    "gradient, accepted", [(0.0, True), (0.5, True), (1.0, True), (1.1, False), (-0.1, False)]
)
def test_at_a_kink_any_subgradient_is_accepted_and_no_other(gradient, accepted):
    left, right, error = kink_at(slope_of(line(lambda t: np.maximum(t, 0), 0.0)))
    assert (left - error <= gradient <= right + error) == accepted


@pytest.mark.parametrize("f", [lambda t: t * t, np.cos, lambda t: 1 + np.exp(t) - t, np.sin])
def test_a_smooth_function_has_no_kink_even_where_its_slope_vanishes(f):
    assert kink_at(slope_of(line(f, 0.0))) is None


def test_a_kink_near_the_point_is_not_reported():
    assert kink_at(slope_of(line(np.abs, 3e-5))) is None


def test_a_jump_is_no_derivative():
    assert kink_at(slope_of(line(np.sign, 0.0)))[2] == np.inf
    assert kink_at(slope_of(line(lambda t: np.floor(t) + t, 0.0)))[2] == np.inf


def test_a_kink_at_or_near_the_point_is_reported_by_element(device):
    x = ta.tensor(np.array([[1.0, 0.0], [3e-7, -2.0]]), device=device)
    with pytest.warns(GradcheckWarning) as caught:
        assert ta.gradcheck(ta.relu, x)
    assert len(caught) == 1 and "at index (0, 1)" in str(caught[0].message)
    report = gradient_report(ta.relu, x)
    assert [kink.index for _, kink in report.kinks] == [(0, 1)]
    assert report.absolute_error < 1e-7  # the other one, at 3e-7, was decided by smaller steps


def test_a_function_with_kinks_everywhere_is_not_called_right(device):
    with pytest.raises(GradcheckInconclusive, match="kink everywhere"):
        ta.gradcheck(ta.abs, ta.tensor(np.zeros(3), device=device))


def test_the_edge_of_the_domain_is_reported(device):
    x = ta.tensor(np.array([0.0, 4.0]), device=device)
    with pytest.warns(GradcheckWarning, match="not finite on both sides"):
        assert ta.gradcheck(ta.sqrt, x)


@pytest.mark.parametrize("name", ["softmax", "tanh", "exp", "sin", "log_softmax", "square"])
def test_a_complex_step_agrees_to_rounding(name, device, random):
    x = ta.tensor(random.uniform(0.5, 1.5, (2, 3)), device=device)
    report = gradient_report(getattr(ta, name), x, oracle="complex")
    assert report.passed and report.absolute_error < 1e-14


def test_a_complex_step_checks_parameters(random):
    weight = ta.tensor(random.standard_normal((3, 2)))
    x = ta.tensor(random.standard_normal((4, 3)))
    report = gradient_report(
        lambda x: ta.tanh(x @ weight), x, params={"weight": weight}, oracle="complex"
    )
    assert report.passed and len(report.arguments) == 2 and report.absolute_error < 1e-14


def test_a_wrong_gradient_does_not_pass_a_complex_step():
    with pytest.raises(ta.GradcheckError):
        ta.gradcheck(lambda x: x * x.detach(), np.array([1.0, 2.0]), oracle="complex")
