"""Check every element of the gradients against finite differences: ``mode="full"``.

Each element first gets one central difference, with two evaluations. If gradient and difference agree to 1e-7, and the
two one-sided differences are close enough to exclude a truncation error of that size, the element is right: two
numbers with independent errors do not agree by chance. Otherwise a ladder of steps decides; see ``ladder``. The ladders
of later elements start near its best step.
"""

import heapq
import math

import numpy as np

from .complex_step import complex_slopes
from .judge import Judge
from .ladder import kink_at, slope_of, widened_bar
from .noise import Noise
from .numeric import UNIT_ROUNDOFF, OutputErrors, half_ulps
from .report import CANNOT_TELL, RIGHT, WRONG, ArgumentReport, Element, Kink
from .settings import LISTED, generator

_STEP = 2.0**-17  # of the first difference, relative to elements larger than 1
_STEP_TOGETHER = 2.0**-6  # of the common step in ``_move_anything``
_NEAR = (0.11, 0.17, 0.23, 0.31)  # in sizes of the element
_AGREEMENT = 1e-7  # relative, of gradient and first difference
_ZERO = 1e-9  # relative to the slopes nearby, where the slope at the point is zero
_REDRAWS = 3  # of the cotangents, for elements that are inconclusive
BEND = 5e-4  # relative difference of the one-sided slopes; the truncation error is about its square over 6


def measure_elements(problem, cotangents, settings, base, analytic, redraw=False):
    """One ``ArgumentReport`` for each argument of the problem.

    Args:
        base: the values at the point.
        analytic: the gradients there.
        redraw: check inconclusive elements again, with other random cotangents.
    """
    noise = Noise(problem, cotangents, base, analytic)
    exact = complex_slopes(problem, cotangents) if settings.oracle == "complex" else None
    reports = []
    with np.errstate(all="ignore"):  # large steps may overflow
        for position in range(len(analytic)):
            elements = Elements(problem, position, analytic, cotangents, settings, base, noise)
            if exact is None:
                reports.append(elements.by_differences())
            else:
                reports.append(elements.by_exact_slopes(exact[position]))
        random = generator(settings.seed, "another cotangent")
        for _ in range(_REDRAWS if redraw else 0):
            if any(report.unsure for report in reports):
                _check_again(problem, settings, base, reports, random)
    return reports


def _check_again(problem, settings, base, reports, random):
    """Replace inconclusive elements by their verdicts with other cotangents.

    An element may be small against the rounding of the outputs because its terms happen to cancel. They hardly do so
    again with another cotangent, and a backward pass that is wrong there is wrong with any.
    """
    cotangents = [random.standard_normal(value.shape) for value in base]
    analytic = problem.gradients(cotangents)
    noise = Noise(problem, cotangents, base, analytic)
    for position, report in enumerate(reports):
        unsure = [element for element in report.worst if element.verdict == CANNOT_TELL]
        if not unsure or report.failures or report.unsure > len(unsure):
            continue
        elements = Elements(problem, position, analytic, cotangents, settings, base, noise)
        again = elements.by_differences([element.index for element in unsure])
        if again.failures or again.unsure < report.unsure:
            kept = [element for element in report.worst if element.verdict == RIGHT]
            report.worst, report.ladder = again.worst + kept, again.ladder
            report.failures, report.unsure = again.failures, again.unsure
            report.kinks += again.kinks


class Elements:
    """Checks the elements of one argument, which it collects in an ``ArgumentReport``."""

    def __init__(self, problem, position, analytic, cotangents, settings, base, noise):
        self._problem = problem
        self._position = position
        self._argument = argument = problem.arguments[position]
        gradient = analytic[position]
        self._reached = gradient is not None
        self._gradient = np.zeros(argument.shape) if gradient is None else gradient
        self._cotangents = cotangents
        self._settings = settings
        self._base = base
        self._noise = noise
        self._hint = None  # the best step of the last ladder
        self._typical = float(np.max(np.abs(argument.start), initial=0.0)) or 1.0
        self._judged = []  # (element, ladder or None)
        self._half_ulps = half_ulps(base, cotangents)
        self._report = ArgumentReport(argument.name, argument.shape, order=problem.order)

    def by_differences(self, indices=None):
        """The report, with slopes from finite differences; ``indices``: the elements to check, all if None."""
        report = self._report
        indices = list(self._argument.indices()) if indices is None else indices
        first = [self._line(index).slopes(self._first_step(index)) for index in indices]
        report.checked = len(indices)
        report.has_influence = not indices or self._reached or any(m[0] != 0 for m in first)
        sizes = [abs(m[0]) for m in first] + np.abs(self._gradient).ravel().tolist()
        scale = max(filter(math.isfinite, sizes), default=0.0)
        judge = self._judge(scale)
        still = {
            index
            for index, (central, left, right, _) in zip(indices, first, strict=True)
            if central == left == right == self._gradient[index] == 0
        }
        if self._move_anything(still):
            still.clear()
        for index, measured in zip(indices, first, strict=True):
            analytic, ladder = float(self._gradient[index]), None
            if index in still:
                element = Element(index, 0.0, 0.0, 0.0)
            else:
                element = self._by_first_difference(judge, index, analytic, *measured)
            if element is None:
                element, ladder = self._by_ladder(judge, index, analytic)
            if element is not None:
                self._record(element, ladder)
        return self._finished(scale)

    def at(self, index, scale):
        """The ``Element`` and the ``Ladder`` at one index; the element is None at a kink."""
        judge = self._judge(scale)
        return self._by_ladder(judge, index, float(self._gradient[index]))

    def by_exact_slopes(self, slopes):
        """The report, with slopes that are exact up to rounding."""
        report, indices = self._report, list(self._argument.indices())
        report.checked = len(indices)
        report.has_influence = not indices or self._reached or bool(np.any(slopes))
        scale = max((abs(v) for i in indices for v in (self._gradient[i], slopes[i])), default=0.0)
        rounding = float(np.max(self._noise.gradients[self._position], initial=0.0))
        judge = self._judge(scale)
        judge.rounding = rounding
        for index in indices:
            analytic, numeric = float(self._gradient[index]), float(slopes[index])
            bar = 16 * UNIT_ROUNDOFF * max(scale, abs(numeric)) + self._least_bar(index)
            deviation = float(self._noise.gradients[self._position][index])
            self._record(judge.verdict(index, analytic, numeric, bar, deviation, bar))
        return self._finished(scale)

    def _move_anything(self, indices):
        """Whether a larger common step of these elements, whose gradients are all zero, changes the outputs."""
        if not indices:
            return False
        directions = [np.zeros(argument.shape) for argument in self._problem.arguments]
        for index in indices:
            directions[self._position][index] = self._size(index)
        line = self._problem.line_along(directions, self._cotangents, self._base, self._half_ulps)
        return any(slope != 0 for slope in line.slopes(_STEP_TOGETHER)[:3])

    def _judge(self, scale):
        is_finite = all(np.isfinite(value).all() for value in self._base)
        return Judge(scale, self._settings.tolerances, is_finite=is_finite)

    def _line(self, index, errors=None):
        errors = errors or self._half_ulps
        return self._problem.line(self._argument, index, self._cotangents, self._base, errors)

    def _size(self, index):
        """The largest power of two below the element, at least 1: such steps move it without rounding."""
        value = abs(float(self._argument.start[index]))
        return 2.0 ** math.floor(math.log2(max(1.0, value if math.isfinite(value) else 1.0)))

    def _first_step(self, index):
        relative = _STEP if self._settings.eps is None else self._settings.eps
        return relative * self._size(index)

    def _smallest_step(self, index):
        value = abs(float(self._argument.start[index])) or min(1.0, self._typical)
        relative = 2.0 ** math.floor(math.log2(min(1.0, value))) * 2.0**-24
        return max(relative, 64 * float(np.spacing(abs(self._argument.start[index]))))

    def _by_first_difference(self, judge, index, analytic, numeric, left, right, rounding):
        """The ``Element`` if the first difference suffices, else None."""
        error = abs(analytic - numeric)
        if numeric == left == right == 0.0:
            return None
        smooth = abs(right - left) <= BEND * abs(numeric) + 8 * rounding
        bar = 2 * rounding + BEND**2 * abs(numeric)
        if smooth and judge.tolerances is not None:
            element = judge.verdict(index, analytic, numeric, bar)
            return element if element.verdict == RIGHT else None
        if smooth and error <= _AGREEMENT * abs(numeric):
            return Element(index, analytic, numeric, max(bar, error))
        clear = error > 1e-3 * max(abs(analytic), abs(numeric)) + 100 * rounding
        if smooth and clear and self._report.failures >= LISTED:
            return judge.verdict(index, analytic, numeric, bar)
        return None

    def _by_ladder(self, judge, index, analytic):
        """``(element, ladder)``; the element is None at a kink, which goes to the report."""
        deviation = float(self._noise.gradients[self._position][index])
        zero_bar = 1e4 * self._least_bar(index)
        judge.rounding = float(np.max(self._noise.gradients[self._position]))

        def verdict(numeric, bar, zero_bar=zero_bar):
            return judge.verdict(index, analytic, numeric, bar, deviation, zero_bar)

        def accepts(numeric, bar):
            return verdict(numeric, bar).verdict == RIGHT

        ladder = self._ladder(index, accepts)
        kink = kink_at(ladder)
        if kink is not None and (coarse := self._on_coarse_grid(index)) is not None:
            # A jump from one grid point to the next has the one-sided slopes of a kink.
            ladder, kink = coarse, kink_at(coarse)
        if kink is None:
            nearby = max(filter(math.isfinite, map(abs, ladder.left + ladder.right)), default=0.0)
            zero_bar = max(zero_bar, _ZERO * nearby)
            element = verdict(ladder.slope, ladder.error_bar, zero_bar)
            if element.verdict == RIGHT:
                self._hint = ladder.step
            elif element.verdict == WRONG and math.isfinite(ladder.error_bar):
                ladder = self._on_coarse_grid(index) or ladder
                line = self._line(index, self._noise.output_errors)
                ladder.error_bar = widened_bar(line, ladder, self._size(index))
                element = verdict(ladder.slope, ladder.error_bar)
            return element, ladder
        left, right, error = kink
        if math.isinf(error) or min(left, right) - error <= analytic <= max(left, right) + error:
            self._report.kinks.append(Kink(index, left, right, analytic))
            return None, None
        nearest = min(left, right, key=lambda slope: abs(slope - analytic))
        return Element(index, analytic, nearest, error, error, WRONG), ladder

    def _ladder(self, index, accepts=None):
        """The ``Ladder`` of an element; a short one around the best step of the previous ladder, if that suffices."""
        line = self._line(index, self._noise.output_errors)
        largest, smallest = self._size(index) / 4, self._smallest_step(index)
        if accepts is not None and self._hint is not None and 64 * self._hint < largest:
            near = slope_of(line, 64 * self._hint, max(smallest, self._hint / 64), accepts)
            if accepts(near.slope, near.error_bar):
                return near
        return slope_of(line, largest, smallest, accepts)

    def _on_coarse_grid(self, index):
        """The ladder with the granularity of the outputs as their rounding error, where it is larger; else None.

        Steps that do not leave a grid point give differences of zero, which the noise of nearby points does not show.
        """
        line, size = self._line(index), self._size(index)
        grids = line.granularity([sign * size * near for near in _NEAR for sign in (1, -1)])
        pairs = list(zip(self._noise.outputs, grids, strict=True))
        if not any(np.any(grid > noise) for noise, grid in pairs):
            return None
        noise = [np.maximum(noise, grid) for noise, grid in pairs]
        line = self._line(index, OutputErrors(noise, self._cotangents))
        return slope_of(line, size / 4, self._smallest_step(index))

    def _least_bar(self, index):
        """The error bar from rounding alone, for a step as large as the element, or as the largest if all are small."""
        size = min(self._size(index), self._typical)
        return self._noise.output_errors.of_difference() / size

    def _record(self, element, ladder=None):
        report = self._report
        report.failures += element.verdict == WRONG
        report.unsure += element.verdict == CANNOT_TELL
        self._judged.append((element, ladder))

    def _finished(self, scale):
        """The report, with the worst elements and the errors."""
        report = self._report
        ranks = {WRONG: 2, CANNOT_TELL: 1, RIGHT: 0}
        worst = heapq.nlargest(LISTED, self._judged, lambda e: (ranks[e[0].verdict], e[0].error))
        report.worst = [element for element, _ in worst]
        report.absolute_error = max((element.error for element, _ in self._judged), default=0.0)
        for element, _ in self._judged:
            # A gradient that is zero up to rounding has no scale for a relative error.
            if scale > element.allowed or element.verdict == WRONG:
                relative = element.error / scale if scale else element.error
                report.relative_error = max(report.relative_error, relative)
        if worst:
            report.ladder = worst[0][1]
            if self._settings.curves:
                report.ladder = self._ladder(worst[0][0].index)
        return report
