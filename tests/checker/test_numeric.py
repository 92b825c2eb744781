"""Differences, extrapolation, kinks and the complex step."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.checker import GradcheckWarning, gradient_report
from tinyattn.checker.numeric import Line, extrapolated, kink


def line(f, x):
    return Line(lambda t: [np.asarray(f(x + t))], [np.array(1.0)])


@pytest.mark.parametrize(
    "f, slope, x",
    [
        (np.exp, np.exp, 1.0),
        (np.tanh, lambda x: 1 / np.cosh(x) ** 2, 0.3),
        (np.log, lambda x: 1 / x, 1e-3),
    ],
)
def test_extrapolation_is_far_more_accurate_than_one_difference(f, slope, x):
    with np.errstate(invalid="ignore"):
        value, _, _ = extrapolated(line(f, x), 0.05)
    assert abs(value - slope(x)) < 1e-11 * max(1, abs(slope(x)))


def test_extrapolation_gives_up_where_the_function_is_nowhere_finite():
    with np.errstate(invalid="ignore"):
        assert np.isnan(extrapolated(line(np.sqrt, -1.0), 0.1)[0])


def test_infinite_outputs_that_do_not_change_leave_no_nan():
    assert line(lambda t: np.array([np.inf, -np.inf, 2 * t]), 0.5).central(1e-3) == pytest.approx(2)


@pytest.mark.parametrize(
    "gradient, accepted", [(0.0, True), (0.5, True), (1.0, True), (1.1, False), (-0.1, False)]
)
def test_at_a_kink_any_subgradient_is_accepted_and_no_other(gradient, accepted):
    found = kink(line(lambda t: np.maximum(t, 0), 0.0), 1e-6, gradient, 1e-6)
    assert (found is not None) == accepted


def test_a_smooth_function_has_no_kink_even_where_its_slope_vanishes():
    assert kink(line(lambda t: t * t, 0.0), 1e-6, 1e-7, 1e-9) is None


def test_a_jump_is_no_derivative():
    assert kink(line(np.sign, 0.0), 1e-6, 0.0, 1e-6) is not None


def test_a_kink_at_or_near_the_point_is_reported_by_element(device):
    x = ta.tensor(np.array([[1.0, 0.0], [3e-7, -2.0]]), device=device)
    with pytest.warns(GradcheckWarning) as caught:
        assert ta.gradcheck(ta.relu, x)
    assert len(caught) == 1 and "at index (0, 1)" in str(caught[0].message)
    report = gradient_report(ta.relu, x)
    assert [kink.index for _, kink in report.kinks] == [(0, 1)]
    assert report.absolute_error < 1e-7  # the other one, at 3e-7, was decided by smaller steps


def test_a_function_with_kinks_everywhere_is_not_called_right(device):
    with pytest.raises(ta.GradcheckError, match="kink everywhere"):
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
