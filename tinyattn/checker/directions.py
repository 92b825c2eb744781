"""Check along random directions, and find the wrong elements by bisection: ``mode="fast"``.

A direction d moves all elements of all arguments at once, and one slope of the function checks sum(a * d) for the whole
gradient a. Its entries have random signs and random sizes between a half and three halves of a typical size: none is
near zero, so that every element contributes, and they are random, so that errors do not cancel in the sum. The first
direction weighs all arguments equally; in the others, arguments that dominate the sum have smaller entries.

Each direction first gets one central difference. If all of them agree with the gradient, and the one-sided differences
exclude a truncation error of that size, the gradient is right: independent numbers do not agree by chance. Otherwise
the rounding errors of the function are measured, and a ladder of steps decides for each direction.

If a slope disagrees, ``bisection`` finds the wrong elements.
"""

import math
from dataclasses import dataclass

import numpy as np

from .bisection import Search
from .elements import BEND, Elements
from .judge import BARS, Judge
from .ladder import kink_at, slope_of, widened_bar
from .noise import Noise
from .numeric import BLOCK, UNIT_ROUNDOFF, contraction, half_ulps, root_sum_square
from .report import CANNOT_TELL, RIGHT, WRONG, ArgumentReport, Element, Kink, Ladder
from .settings import LISTED, generator

MAX_EVALUATIONS = 40
_LARGEST, _SMALLEST = 2.0**-4, 2.0**-28
# Steps of the first differences: for smooth functions, and for functions with kinks, which few elements then cross.
_FIRST = (2.0**-15, 2.0**-22)
# Relative, of the slope: detects one element in a million that is wrong by a thousandth.
_RESOLUTION = 1e-7
# Of the typical size: random signs, and magnitudes between a half and three halves.
_FACTORS = np.concatenate([np.arange(-383, -127), np.arange(128, 384)]) / 256


def measure_directions(problem, cotangents, settings, base, analytic, evaluations):
    """One ``ArgumentReport`` for each argument of the problem; the arguments are those of ``measure_elements``.

    Args:
        evaluations: number of evaluations of the function that are left, not counting the search for wrong elements.
    """
    return _Directions(problem, cotangents, settings, base, analytic).reports(evaluations)


@dataclass
class _Direction:
    """A direction, and the slope of the function along it according to the gradient.

    Attributes:
        entries: one array for each argument.
        slope: the sum of gradient * entries.
        shares: the part of each argument in it: the Euclidean norm of gradient * entries.
        floors: ten times the part that the rounding errors of each argument's gradient have in it.
    """

    entries: list
    slope: float
    shares: list
    floors: list

    @property
    def scale(self):
        return math.hypot(*self.shares)

    @property
    def least(self):
        """The smallest part of an argument, except those of rounding error only, as of a gradient that is zero."""
        pairs = zip(self.shares, self.floors, strict=True)
        return min((share for share, floor in pairs if share > floor), default=0.0)


class _Directions:
    def __init__(self, problem, cotangents, settings, base, analytic):
        self._problem = problem
        self._cotangents = cotangents
        self._settings = settings
        self._base = base
        self._analytic = analytic
        self._gradients = [
            np.zeros(argument.shape) if gradient is None else gradient
            for argument, gradient in zip(problem.arguments, analytic, strict=True)
        ]
        self._noise = Noise(problem, cotangents, base, analytic)
        self._first_move = (
            math.inf
        )  # the first step of the next ladder, times the scale of its direction

    def reports(self, evaluations):
        size = sum(gradient.size for gradient in self._gradients)
        if size == 0:
            return [self._report(position, 0) for position in range(len(self._gradients))]
        reports = [self._report(k, self._settings.directions) for k in range(len(self._gradients))]
        spent = self._problem.evaluations
        with np.errstate(all="ignore"):
            directions = list(self._directions())
            judged = self._by_first_differences(directions)  # (direction, element, ladder)
            if len(judged) < len(directions):
                if not self._still_right(judged):
                    judged = []
                left = evaluations - (self._problem.evaluations - spent)
                judged = self._by_ladders(directions, judged, left // 2, reports)
            self._conclude(reports, judged)
        return reports

    def _report(self, position, directions):
        argument = self._problem.arguments[position]
        report = ArgumentReport(argument.name, argument.shape, order=self._problem.order)
        if self._gradients[position].size:
            report.checked = report.directions = directions
        return report

    # ------------------------------------------------------------------------------------------------- directions

    def _directions(self):
        """The random directions."""
        random = generator(self._settings.seed, "directions")
        sizes = [_sizes(argument.start) for argument in self._problem.arguments]
        for number in range(self._settings.directions):
            direction = self._with_slope([_random_entries(size, random) for size in sizes])
            if number and len(sizes) > 1 and direction.least > 0:
                # The smallest part, unless it is rounding error only, sets the size of the others.
                for entries, share in zip(direction.entries, direction.shares, strict=True):
                    if share > direction.least:
                        ratio = max(direction.least / share, 2.0**-20)
                        entries *= 2.0 ** math.floor(math.log2(ratio))
                direction = self._with_slope(direction.entries)
            yield direction

    def _with_slope(self, entries):
        pairs = list(zip(self._gradients, entries, strict=True))
        contracted = [contraction(gradient, part) for gradient, part in pairs]
        floors = [0.0] * len(entries)
        if len(entries) > 1:
            deviations = zip(self._noise.gradients, entries, strict=True)
            floors = [10 * contraction(t, part)[1] for t, part in deviations]
        shares = [share for _, share in contracted]
        return _Direction(entries, sum(slope for slope, _ in contracted), shares, floors)

    def line(self, entries, errors=None, moving=0.0):
        return self._problem.line_along(entries, self._cotangents, self._base, errors, moving)

    def _by_first_differences(self, directions):
        """The results of the directions from one difference each, up to the first for which that does not suffice."""
        if self._settings.tolerances is not None or self._settings.curves:
            return []
        errors, judged, steps = half_ulps(self._base, self._cotangents), [], _FIRST
        for number, direction in enumerate(directions):
            scale = direction.scale
            if not scale > 0:
                break
            limit = self._limit(number, direction)
            # Smaller entries allow a larger step.
            growth = min(max(directions[0].scale / scale, 1.0), _LARGEST / _FIRST[0])
            line = self.line(direction.entries, errors, UNIT_ROUNDOFF * scale)
            for first in steps:
                step = first * 2.0 ** math.floor(math.log2(growth))
                numeric, left, right, rounding = line.slopes(step)
                bend = abs(right - left)
                # The truncation error h^2 D3 f / 6, with the third derivative estimated by (D2 f)^2 / D f.
                bar = 2 * rounding + bend * (bend / scale) / 6
                bar = max(abs(numeric - direction.slope), bar)
                if bend <= BEND * scale and BARS * bar <= limit:
                    break
                if first == _FIRST[0] and bend > 0:
                    # Ladders start near the step at which the one-sided slopes differ by a tenth.
                    self._first_move = 0.1 * step * (scale / bend) * scale
            else:
                break
            steps = (first,)
            element = Element(None, direction.slope, numeric, bar, BARS * bar)
            ladder = Ladder([step], [numeric], [rounding], [left], [right], numeric, bar, step)
            judged.append((direction, element, ladder))
        return judged

    def _limit(self, number, direction):
        """The largest error of a slope that the direction may have to be conclusive; see ``_summarize``."""
        limit = _RESOLUTION * direction.scale
        return min(limit, 1e-6 * direction.least) if number else limit

    def _still_right(self, judged):
        """Whether the results of first differences are conclusive with the rounding error as measured."""
        error = self._noise.output_errors.of_difference()
        return all(
            BARS * error / ladder.step <= self._limit(number, direction)
            for number, (direction, _, ladder) in enumerate(judged)
        )

    def _by_ladders(self, directions, judged, rows, reports):
        """The results of all directions after those in ``judged`` from ladders with ``rows`` rows in all; adds kinks to
        the reports."""
        judged = list(judged)
        for number in range(len(judged), len(directions)):
            direction = directions[number]
            least = 3 * (len(directions) - number - 1)
            limit = self._limit(number, direction)
            element, ladder, kink = self._along(direction, limit, max(3, rows - least))
            rows -= len(ladder.steps)
            if kink is None:
                judged.append((direction, element, ladder))
            else:
                for report in reports:
                    report.kinks.append(kink)
        return judged

    def _along(self, direction, limit, rows):
        """``(element, ladder, kink)`` of one direction, with at most ``rows`` rows of the ladder.

        It stops where the gradient is right and the error of the slope is at most ``limit``.
        """
        slope, scale = direction.slope, direction.scale
        deviations = zip(self._noise.gradients, direction.entries, strict=True)
        rounding = math.hypot(*(contraction(t, part)[1] for t, part in deviations))
        rounding += 8 * UNIT_ROUNDOFF * scale
        is_finite = all(np.isfinite(value).all() for value in self._base)
        judge = Judge(scale, self._settings.tolerances, _RESOLUTION, rounding, is_finite)
        # An element that crosses a power of two is rounded as it moves.
        line = self.line(direction.entries, self._noise.output_errors, UNIT_ROUNDOFF * scale)

        def verdict(numeric, bar):
            is_zero = scale <= BARS * bar
            return judge.verdict(None, slope, numeric, bar, rounding, bar if is_zero else 0.0)

        def accepts(numeric, bar):
            element = verdict(numeric, bar)
            return element.verdict == RIGHT and (
                self._settings.tolerances or element.allowed <= limit
            )

        largest = min(_LARGEST, self._first_move / (scale or 1.0))
        largest = 2.0 ** math.floor(math.log2(max(largest, _SMALLEST)))
        smallest = max(_SMALLEST, largest * 4.0 ** (1 - rows))
        ladder = slope_of(line, largest, smallest, accepts)
        element = verdict(ladder.slope, ladder.error_bar)
        if element.verdict == WRONG and ladder.step:
            ladder.error_bar = widened_bar(line, ladder)
            element = verdict(ladder.slope, ladder.error_bar)
        # The next direction starts near the step where this one was right, or at its last step.
        step = 16 * ladder.step if element.verdict == RIGHT else ladder.steps[-1]
        self._first_move = step * (scale or 1.0)
        kink = kink_at(ladder)
        if kink is not None and element.verdict != RIGHT:
            left, right, error = kink
            if math.isinf(error):
                element.verdict = CANNOT_TELL
                element.reason = "the function is not smooth along a random direction at any step"
            elif min(left, right) - error <= slope <= max(left, right) + error:
                return None, ladder, Kink(None, left, right, slope)
        return element, ladder, None

    # ------------------------------------------------------------------------------------------------- conclusions

    def _conclude(self, reports, judged):
        worst = max(judged, key=lambda entry: _rank(entry[1]), default=None)
        for position, report in enumerate(reports):
            self._summarize(report, position, judged)
        if worst is not None and worst[1].verdict == WRONG:
            self._locate(reports, *worst, any(e.verdict == RIGHT for _, e, _ in judged))

    def _summarize(self, report, position, judged):
        """Write the results of the directions into the report of one argument, before any search."""
        if not report.directions or not judged:
            return
        elements = sorted((element for _, element, _ in judged), key=_rank, reverse=True)
        ladders = {id(element): ladder for _, element, ladder in judged}
        report.has_influence = self._analytic[position] is not None or _rank(elements[0])[0] == 2
        # Each direction checks all elements: one conclusive direction suffices.
        if not any(element.verdict == RIGHT for element in elements):
            report.unsure = sum(element.verdict == CANNOT_TELL for element in elements)
        elif elements[0].verdict == CANNOT_TELL:
            elements = [element for element in elements if element.verdict == RIGHT]
        report.worst = elements[:LISTED]
        report.ladder = ladders[id(elements[0])]
        report.absolute_error = max(element.error for element in elements)
        report.relative_error = max(
            element.error / (direction.scale or 1.0)
            for direction, element, _ in judged
            if element in elements
        )
        if self._settings.tolerances is None and not report.unsure:
            visible = [
                (direction.shares[position], direction.floors[position], element.allowed)
                for direction, element, _ in judged
                if element.verdict == RIGHT
            ]
            if visible and all(floor < share < 1e6 * allowed for share, floor, allowed in visible):
                element = elements[0]
                report.unsure = len(elements)
                element = Element(None, element.analytic, element.numeric, element.error_bar)
                element.verdict = CANNOT_TELL
                element.reason = f"{report.name} has too small a part in the slope: use mode='full'"
                report.worst = [element]

    def _locate(self, reports, direction, element, ladder, some_right):
        """Search for the wrong elements, and write them into the reports of their arguments.

        If the search ends at an element that is right, and another direction found no error, it is inconclusive.
        """
        search = Search(direction.entries, self._gradients, self.line, ladder)
        residual, allowed = element.numeric - element.analytic, element.allowed
        found, more = self._wrong_and_not_finite(), False
        while math.isfinite(residual) and abs(residual) > allowed + 1e-3 * abs(
            element.numeric - element.analytic
        ):
            if len(found) == LISTED:
                more = True
                break
            flat, share = search.descend(residual)
            position, index = search.place(flat)
            judged, judged_ladder = self._element_at(position, index)
            if judged is None or judged.verdict != WRONG:
                break
            residual -= share
            found.append((position, judged, judged_ladder))
        random = generator(self._settings.seed, "sample")
        half = more and search.sample(random, self._element_at) >= 0.5
        for position, report in enumerate(reports):
            here = [(e, ladder) for owner, e, ladder in found if owner == position]
            if here:
                here.sort(key=lambda entry: -entry[0].error)
                report.worst, report.ladder = [e for e, _ in here], here[0][1]
                report.failures, report.more_wrong, report.half_wrong = len(here), more, half
                report.absolute_error = here[0][0].error
                report.relative_error = here[0][0].error / (self._scale(position) or 1.0)
            elif found:
                report.worst, report.unsure = [], 0
        for report in () if found else (report for report in reports if report.directions):
            if some_right or not math.isfinite(residual):
                report.unsure, element.verdict = 1, CANNOT_TELL
                element.reason = "the slope disagrees, and no element that is wrong was found"
            else:
                report.failures = 1

    def _wrong_and_not_finite(self):
        """``(position, element, ladder)`` of infinite and NaN elements that are wrong, at most five."""
        found = []
        for position, gradient in enumerate(self._gradients):
            for index in np.argwhere(~np.isfinite(gradient))[:LISTED]:
                judged, ladder = self._element_at(position, tuple(map(int, index)))
                if judged is not None and judged.verdict == WRONG:
                    found.append((position, judged, ladder))
        return found[:LISTED]

    def _element_at(self, position, index):
        """``(element, ladder)`` of one element of the argument at ``position``."""
        point = (self._analytic, self._cotangents, self._settings, self._base, self._noise)
        elements = Elements(self._problem, position, *point)
        return elements.at(index, self._scale(position))

    def _scale(self, position):
        gradient = np.abs(self._gradients[position])
        return float(np.max(gradient, initial=0.0, where=np.isfinite(gradient)))


def _sizes(start):
    """Powers of two, the typical sizes of the entries of a direction: between 1 and the size of each element.

    The length over which the function is smooth is unknown; usually it is between 1 and the size of the elements. The
    entries have the geometric mean of both sizes, from which a ladder of a few steps reaches either.
    """
    magnitude = np.abs(start)
    if not np.isfinite(magnitude).all():
        magnitude = np.where(np.isfinite(start), magnitude, 1.0)
    typical = root_sum_square(magnitude) / math.sqrt(max(start.size, 1)) or 1.0
    _, exponents = np.frexp(np.maximum(magnitude, typical))
    return np.ldexp(1.0, (exponents - 1) >> 1)


def _random_entries(sizes, random):
    """Random entries of these sizes, on a grid so coarse that steps by powers of two move elements without rounding."""
    entries = sizes.flatten()
    for start in range(0, entries.size, BLOCK):
        block = entries[start : start + BLOCK]
        numbers = random.integers(0, _FACTORS.size, block.size, dtype=np.int16)
        block *= _FACTORS.take(numbers, mode="clip")  # the default mode is slower
    return entries.reshape(sizes.shape)


def _rank(element):
    ranks = {WRONG: 2, CANNOT_TELL: 1, RIGHT: 0}
    return ranks[element.verdict], element.bars if math.isfinite(element.bars) else element.error
