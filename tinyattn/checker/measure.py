"""Measure the slope of each element by differences, and compare it with the gradient."""

from dataclasses import dataclass

import numpy as np

from .complex_step import complex_slopes
from .numeric import UNIT_ROUNDOFF, bends, extrapolated, kink
from .report import WRONG, ArgumentReport, Element, GradcheckError, Kink


@dataclass
class Settings:
    """The settings of a check; see ``gradcheck``."""

    eps: float = 1e-6
    rtol: float = 1e-5
    atol: float = 1e-7
    mode: str = "full"
    order: int = 1
    seed: int = 0
    directions: int = 8
    oracle: str = "difference"

    def __post_init__(self):
        if self.mode not in ("full", "directional"):
            raise ValueError(f'mode is {self.mode!r}: expected "full" or "directional"')
        if self.order not in (1, 2):
            raise ValueError(f"order is {self.order!r}: expected 1 or 2")
        if self.oracle not in ("difference", "complex"):
            raise ValueError(f'oracle is {self.oracle!r}: expected "difference" or "complex"')
        if self.oracle == "complex" and (self.order, self.mode) != (1, "full"):
            raise ValueError('oracle="complex" needs order=1 and mode="full"')
        if not self.eps > 0:
            raise ValueError(f"eps is {self.eps!r}: expected a positive step")
        for name in ("rtol", "atol"):
            if not getattr(self, name) >= 0:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}: expected a tolerance of at least 0"
                )
        if self.directions < 1:
            raise ValueError(
                f"directions is {self.directions!r}: expected at least 1, without any nothing is checked"
            )


def generator(seed, purpose):
    """A random stream of its own for each purpose: the cotangent must not equal inputs drawn from the same seed."""
    return np.random.default_rng([seed, *purpose.encode()])


def assert_unchanged(problem):
    """Raise ``GradcheckError`` if the function wrote to one of its arguments."""
    for argument in problem.arguments:
        if not argument.unchanged():
            raise GradcheckError(
                f"the function changes its input {argument.name} in place: its gradient cannot be checked there, "
                "because the point moves. Work on a copy inside the function.",
                argument=argument.name,
            )


def measure_gradients(problem, cotangents, settings, base):
    """One ``ArgumentReport`` for each argument of the problem; ``base``: the values at the point."""
    analytic = problem.gradients(cotangents)
    assert_unchanged(problem)
    exact = complex_slopes(problem, cotangents) if settings.oracle == "complex" else None
    # The error that rounding of the outputs causes in a difference quotient, times the step.
    rounding = (
        8
        * UNIT_ROUNDOFF
        * sum(
            float(np.sum(np.abs(value * cotangent), where=np.isfinite(value)))
            for value, cotangent in zip(base, cotangents, strict=True)
        )
    )
    random = generator(settings.seed, "directions")
    reports = []
    for position, (argument, gradient) in enumerate(zip(problem.arguments, analytic, strict=True)):
        places = _places(argument, gradient, settings, random)
        measurement = _Measurement(problem, argument, cotangents, settings, base, rounding)
        reached = gradient is not None
        if exact is None:
            reports.append(measurement.by_differences(places, reached))
        else:
            reports.append(measurement.by_exact_slopes(places, exact[position], reached))
    assert_unchanged(problem)
    return reports


def _places(argument, gradient, settings, random):
    """Where to measure: ``(index or direction, analytic slope there)``."""
    gradient = np.zeros(argument.shape) if gradient is None else gradient
    if settings.mode == "full":
        return [(index, float(gradient[index])) for index in argument.indices()]
    if gradient.size == 0:
        return []
    directions = [random.standard_normal(argument.shape) for _ in range(settings.directions)]
    return [(direction, float(np.sum(direction * gradient))) for direction in directions]


class _Measurement:
    """The measurements of one argument, and whether its gradient agrees with each."""

    def __init__(self, problem, argument, cotangents, settings, base, rounding):
        self._problem = problem
        self._argument = argument
        self._cotangents = cotangents
        self._settings = settings
        self._base = base
        self._rounding = rounding

    def by_differences(self, places, reached):
        """The report, with slopes from finite differences."""
        report = ArgumentReport(
            self._argument.name, self._argument.shape, order=self._problem.order
        )
        report.checked = len(places)
        measured = [self._line(p).slopes(self._step(p), self._base) for p, _ in places]
        finite = [
            abs(v) for (_, a), m in zip(places, measured) for v in (a, m[0]) if np.isfinite(v)
        ]
        scale = max(finite, default=0.0)
        report.has_influence = not places or reached or any(m[0] != 0 for m in measured)
        for (place, slope), (numeric, left, right) in zip(places, measured):
            beside = None
            if bends(left, right, scale, self._rounding / self._step(place)):
                found, beside = self._kink(place, slope, scale)
                if found is not None and beside is None:
                    report.kinks.append(found)
                    continue
                numeric = numeric if beside is None else beside
            if beside is None and not self._agree(slope, numeric, scale):
                numeric, floor = self._extrapolated(place)
                if not self._agree(slope, numeric, scale, floor):
                    report.failures += 1
            self._record(report, place, numeric, slope, scale)
            if report.failures:
                report.worst[0].verdict = WRONG
        return report

    def by_exact_slopes(self, places, slopes, reached):
        """The report, with slopes that are exact up to rounding."""
        report = ArgumentReport(
            self._argument.name, self._argument.shape, order=self._problem.order
        )
        report.checked = len(places)
        scale = max((abs(v) for place, a in places for v in (a, slopes[place])), default=0.0)
        report.has_influence = not places or reached or bool(np.any(slopes))
        for place, slope in places:
            numeric = float(slopes[place])
            report.failures += not self._agree(slope, numeric, scale, self._rounding)
            self._record(report, place, numeric, slope, scale)
            if report.failures:
                report.worst[0].verdict = WRONG
        return report

    def _line(self, place):
        return self._problem.line(self._argument, place, self._cotangents)

    def _size(self, place):
        return max(1.0, abs(float(self._argument.start[place]))) if type(place) is tuple else 1.0

    def _step(self, place):
        return self._settings.eps * self._size(place)

    def _extrapolated(self, place):
        slope, _, step = extrapolated(self._line(place), 0.05 * self._size(place))
        return slope, self._rounding / step

    def _kink(self, place, slope, scale):
        """The kink within the step, or None; and the slope at the point, if the kink lies beside it."""
        line, step = self._line(place), self._step(place)
        tolerance = self._settings.rtol * scale
        sides = kink(line, step, slope, tolerance, noise=self._rounding / step)
        if sides is None:
            return None, None
        step /= 64
        numeric, left, right = line.slopes(step, self._base)
        noise = self._rounding / step
        smooth = not bends(left, right, noise=noise)
        beside = numeric if smooth and self._agree(slope, numeric, scale, noise) else None
        return Kink(place if type(place) is tuple else None, *sides, slope), beside

    def _agree(self, analytic, numeric, scale, floor=0.0):
        settings = self._settings
        allowed = settings.atol * min(1.0, scale) + settings.rtol * abs(numeric) + floor
        return abs(analytic - numeric) <= allowed  # False for NaN

    def _record(self, report, place, numeric, analytic, scale):
        error = abs(analytic - numeric)
        error = np.inf if np.isnan(error) else error
        if not report.worst or error > report.absolute_error:
            index = place if type(place) is tuple else None
            report.worst = [Element(index, analytic, numeric, 0.0)]
            report.absolute_error = max(error, report.absolute_error)
            # A gradient that is zero up to rounding has no scale for a relative error.
            is_zero = scale <= self._rounding / self._settings.eps and error <= scale
            report.relative_error = 0.0 if is_zero else error / scale if scale else error
