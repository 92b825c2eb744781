"""Difference quotients along a line through the point, with an estimate of their rounding error.

The central difference (f(x + h) - f(x - h)) / 2h errs by truncation, f''' h^2 / 6, and by rounding, sqrt(2) s / 2h
where s is the rounding error of a value of f. ``ladder`` removes the truncation error; this module estimates the
rounding error. The outputs are subtracted before they are contracted with the cotangents, so that outputs that do not
depend on the moved element add no error. An output that changes with one step counts for all later, smaller steps too,
where rounding may hide its change; if no output ever changes, all count.
"""

import math

import numpy as np

UNIT_ROUNDOFF = float(np.finfo(np.float64).eps) / 2
# Random changes are hardly ever all multiples of so large a power of two.
_FINE = 128 * UNIT_ROUNDOFF
BLOCK = 2**15  # elements of a large array that are processed together, in the cache


class OutputErrors:
    """The rounding errors of the outputs, as errors of the contraction with the cotangents.

    Args:
        errors: the rounding error of each output, as arrays.
        cotangents: one array for each of them.
        factor: of the errors.

    >>> errors = OutputErrors([np.array([3.0, 4.0])], [np.array([1.0, -1.0])])
    >>> errors.of_difference([np.array([True, True])]) / 2**0.5
    5.0
    """

    def __init__(self, errors, cotangents, factor=1.0):
        self._pairs = list(zip(errors, cotangents, strict=True))
        self._factor = factor
        with np.errstate(all="ignore"):
            self._norms = [contraction(error, cotangent)[1] for error, cotangent in self._pairs]

    def of_difference(self, touched=()):
        """The rounding error of the difference of two values, from the outputs in ``touched``, or all if none is."""
        norms = self._norms
        if any(flags.any() for flags in touched):
            norms = [
                norm if flags.all() else contraction(np.ravel(e)[flags], np.ravel(c)[flags])[1]
                for norm, (e, c), flags in zip(norms, self._pairs, touched, strict=True)
            ]
        return self._factor * math.sqrt(2) * math.hypot(*norms)


def half_ulps(values, cotangents):
    """``OutputErrors`` of half a unit in the last place of each output."""
    return OutputErrors(values, cotangents, UNIT_ROUNDOFF)


class Line:
    """A function along one line through the point, contracted with the cotangents of its outputs.

    Args:
        values: a function of the signed distance from the point; gives a list of arrays.
        cotangents: one array for each of them.
        base: the values at the point, if they are known already.
        errors: their ``OutputErrors``; ``half_ulps`` of ``base`` if not given.
        moving: the error of the contraction from rounding the moved inputs.
        moved: a function from a distance to the distance that the rounded input moves; the identity if not given.

    >>> line = Line(lambda t: [np.array([t**2 + 3 * t])], [np.array([2.0])])
    >>> line.slope(1.0, -1.0)
    6.0
    """

    def __init__(self, values, cotangents, base=None, errors=None, moving=0.0, moved=None):
        self._values = values
        self._cotangents = cotangents
        self._base = base
        self._errors = errors
        self._moving = moving
        self._moved = moved or float
        self._touched = [np.zeros(cotangent.size, bool) for cotangent in cotangents]
        self._counts = None  # of touched outputs, when their rounding error was computed
        self._rounding_error = 0.0

    @property
    def base(self):
        if self._base is None:
            self._base = self._values(0.0)
        return self._base

    def slope(self, above, below):
        """The difference quotient between two distances."""
        return self._quotient(self._values(above), self._values(below), above - below)[0]

    def central(self, h):
        """The central difference with the step ``h``."""
        return self.slope(h, -h)

    def slopes(self, h):
        """``(central, left, right, rounding)``: three differences with the step ``h``, and the error of the central.

        The one-sided differences have twice its rounding error.
        """
        above, below = self._values(h), self._values(-h)
        up, down = self._moved(h), -self._moved(-h)
        left, rounding_left = self._quotient(self.base, below, down)
        right, rounding_right = self._quotient(above, self.base, up)
        if np.isfinite(left) and np.isfinite(right):
            return (left + right) / 2, left, right, (rounding_left + rounding_right) / 4
        central, rounding = self._quotient(above, below, up + down)
        return central, left, right, rounding

    def reach(self, distances):
        """Count the outputs as well that change at these distances; the rounding error of a difference then."""
        for distance in distances:
            self._quotient(self._values(distance), self.base, distance)
        return self._rounding() + self._moving

    def granularity(self, distances):
        """For each output an array: the power of two of which all changes at these distances are multiples.

        It is large where a function rounds its result to a coarser grid than that of float64, as x + 1e10 - 1e10 does;
        0 where an output does not change, and where a change has bits near the last place of the values.
        """
        grids = [np.full(value.shape, np.inf) for value in self.base]
        for distance in distances:
            for grid, value, base in zip(grids, self._values(distance), self.base, strict=True):
                change = value - base
                changes = np.isfinite(change) & (change != 0)
                lowest = _lowest_bit(change)
                fine = lowest <= _FINE * np.maximum(np.abs(value), np.abs(base))
                np.minimum(grid, np.where(fine, 0.0, lowest), out=grid, where=changes)
        return [np.where(np.isfinite(grid), grid, 0.0) for grid in grids]

    def complex_slope(self, h):
        """The slope from one evaluation at the imaginary distance ``h``, for analytic functions."""
        values = zip(self._values(1j * h), self._cotangents, strict=True)
        return sum(float(np.sum(np.imag(value) / h * cotangent)) for value, cotangent in values)

    def _quotient(self, above, below, distance):
        """The difference quotient and its rounding error."""
        total = size = 0.0
        for values in zip(above, below, self._cotangents, self._touched, strict=True):
            part, part_size = _contracted_difference(*values)
            total += part
            size += part_size
        rounding = self._rounding() + self._moving + 2 * UNIT_ROUNDOFF * size
        return total / distance, rounding / distance

    def _rounding(self):
        """The rounding error of the difference of two values."""
        counts = [np.count_nonzero(touched) for touched in self._touched]
        if counts != self._counts:
            if self._errors is None:
                self._errors = half_ulps(self.base, self._cotangents)
            self._counts = counts
            self._rounding_error = self._errors.of_difference(self._touched)
        return self._rounding_error


def _contracted_difference(high, low, cotangent, touched):
    """``(sum, sum of absolute values)`` of (high - low) * cotangent.

    Sets the flags in ``touched`` where high and low differ. The blocks remain in the cache.
    """
    high, low, cotangent = np.ravel(high), np.ravel(low), np.ravel(cotangent)
    buffer = np.empty(min(high.size, BLOCK))
    all_touched = bool(touched.all())
    total = size = 0.0
    for start in range(0, high.size, BLOCK):
        block = slice(start, start + BLOCK)
        terms = buffer[: min(BLOCK, high.size - start)]
        with np.errstate(invalid="ignore"):
            np.subtract(high[block], low[block], out=terms)
            if np.isnan(terms).any():  # inf - inf, from infinite outputs that do not change
                terms[high[block] == low[block]] = 0.0
            if not all_touched:
                touched[block] |= terms != 0
            terms *= cotangent[block]
        total += float(terms.sum())
        size += float(np.abs(terms, out=terms).sum())
    return total, size


def contraction(one, other):
    """``(sum, root of the sum of squares)`` of the products of two arrays; the second of the finite products only.

    >>> contraction(np.array([1.0, -2.0]), np.array([3.0, 2.0]))
    (-1.0, 5.0)
    """
    one, other = np.ravel(one), np.ravel(other)
    buffer = np.empty(min(one.size, BLOCK))
    total = norm = 0.0
    for start in range(0, one.size, BLOCK):
        terms = buffer[: min(BLOCK, one.size - start)]
        np.multiply(one[start : start + BLOCK], other[start : start + BLOCK], out=terms)
        total += float(terms.sum())
        norm = math.hypot(norm, root_sum_square(terms))
    return total, norm


def root_sum_square(values):
    """The Euclidean norm of the finite entries, without overflow and underflow.

    >>> root_sum_square(np.array([3.0, np.inf, -4.0]) * 2.0**600) / 2.0**600
    5.0
    """
    with np.errstate(all="ignore"):
        squares = float(np.square(values).sum())
        if 1e-280 < squares < math.inf:
            return math.sqrt(squares)
        values = np.abs(values[np.isfinite(values)])
        largest = float(np.max(values, initial=0.0))
        return largest and largest * math.sqrt(float(np.square(values / largest).sum()))


def _lowest_bit(values):
    """The value of the lowest bit that is set in each number.

    >>> _lowest_bit(np.array([6.0, 0.75, -8.0])).tolist()
    [2.0, 0.25, 8.0]
    """
    mantissa, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    bits = np.ldexp(mantissa, 53).astype(np.int64)
    return np.ldexp((bits & -bits).astype(np.float64), exponent - 53)
