"""Slopes by finite differences: the central difference, its extrapolation, and the test for a kink.

The central difference (f(x + h) - f(x - h)) / 2h errs by truncation, f''' h^2 / 6, and by rounding, u |f| / h with
u = 1.1e-16. In float64 the sum is smallest, about 1e-11, near h = 1e-5: accurate enough for nearly every element, and
cheap. If it disagrees with the gradient of an element, Richardson extrapolation over a sequence of steps decides: it
removes the truncation error term by term, so that large steps, which have little rounding error, can be used.

Source: C. J. F. Ridders, "Accurate computation of F'(x) and F'(x) F''(x)" (1982).
"""

import math

import numpy as np

UNIT_ROUNDOFF = float(np.finfo(np.float64).eps) / 2
_LEVELS = 12
_RATIO = 2.0


class Line:
    """A function along one line through the point, contracted with the cotangents of its outputs.

    Args:
        values: a function of the signed distance from the point; gives a list of arrays.
        cotangents: one array for each of them.

    >>> line = Line(lambda t: [np.array([t**2 + 3 * t])], [np.array([2.0])])
    >>> line.slope(1.0, -1.0)
    6.0
    """

    def __init__(self, values, cotangents):
        self._values = values
        self._cotangents = cotangents

    def slope(self, above, below):
        """The difference quotient between two distances."""
        return self._quotient(self._values(above), self._values(below), above - below)

    def central(self, h):
        """The central difference with the step ``h``."""
        return self.slope(h, -h)

    def slopes(self, h, middle):
        """The central, left and right differences, given the values at 0: two evaluations."""
        above, below = self._values(h), self._values(-h)
        central = self._quotient(above, below, 2 * h)
        return central, self._quotient(middle, below, h), self._quotient(above, middle, h)

    def complex_slope(self, h):
        """The slope from one evaluation at the imaginary distance ``h``, for analytic functions."""
        values = zip(self._values(1j * h), self._cotangents, strict=True)
        return sum(float(np.sum(np.imag(value) / h * cotangent)) for value, cotangent in values)

    def _quotient(self, above, below, distance):
        """Outputs are subtracted before they are contracted, so that unchanged outputs add no rounding error."""
        total = 0.0
        for high, low, cotangent in zip(above, below, self._cotangents, strict=True):
            with np.errstate(invalid="ignore"):
                difference = np.where(high == low, 0.0, high - low)  # also for inf and inf
            total += float(np.sum(difference * cotangent))
        return total / distance


def extrapolated(line, start):
    """The slope at 0 by Richardson extrapolation of central differences: ``(slope, estimated error, step)``.

    Args:
        line: a ``Line``.
        start: the first step; each next one is half as large. Steps where the function is not finite are skipped.

    >>> line = Line(lambda t: [np.sin(t)], [np.array(1.0)])
    >>> slope, error, step = extrapolated(line, 0.1)
    >>> abs(slope - 1) < 1e-13
    True
    """
    h = start
    first = line.central(h)
    while not math.isfinite(first):
        h /= _RATIO
        if h < start * 1e-13:
            return math.nan, math.inf, h
        first = line.central(h)
    previous = [first]
    best, least, best_step = first, math.inf, h
    for _ in range(_LEVELS):
        h /= _RATIO
        row = [line.central(h)]
        for column, above in enumerate(previous, start=1):
            weight = _RATIO ** (2 * column)
            row.append((weight * row[-1] - above) / (weight - 1))
            error = max(abs(row[-1] - row[-2]), abs(row[-1] - above))
            if error < least:
                best, least, best_step = row[-1], error, h
        if least == 0:
            break
        previous = row
    return best, least, best_step


def kink(line, h, analytic, tolerance, noise=0.0):
    """The slopes ``(left, right)`` where the function has no derivative within ``h`` of the point, else None.

    Where a function is smooth, the one-sided slopes differ by h f'', in proportion to the step. At a kink the
    difference is as large as the slopes, and every number between them is a subgradient, which an operation may return
    by convention. A gradient outside that interval is wrong, kink or not: then None is returned too.

    Args:
        line: a ``Line``.
        h: the step.
        analytic: the gradient to check.
        tolerance: how far it may lie outside the two slopes.
        noise: the rounding error of a slope with the step ``h``.
    """
    left, right = line.slope(0.0, -h), line.slope(h, 0.0)
    if not (math.isfinite(left) and math.isfinite(right)):
        return left, right
    size = max(abs(left), abs(right))
    is_jump = abs(line.central(h / 8)) > 4 * max(size, 8 * noise)  # grows as the step shrinks
    if is_jump:
        return left, right
    if not bends(left, right, noise=noise) or _in_proportion(line, h, right - left):
        return None
    if min(left, right) - tolerance <= analytic <= max(left, right) + tolerance:
        return left, right
    return None


def bends(left, right, scale=0.0, noise=0.0):
    """Whether the one-sided slopes differ by more than the curvature of a smooth function explains.

    >>> bends(1.0, 1.000001), bends(0.0, 1.0)
    (False, True)
    """
    return not abs(right - left) <= 1e-3 * max(abs(left), abs(right), 0.1 * scale) + 4 * noise


def _in_proportion(line, h, bend):
    """Whether the one-sided slopes differ in proportion to the step, as those of a smooth function do."""

    def bend_at(step):
        return line.slope(step, 0.0) - line.slope(0.0, -step)

    return abs(bend_at(4 * h) / bend - 4) < 0.5 and abs(bend_at(h / 4) / bend - 0.25) < 0.05
