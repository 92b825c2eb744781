"""Difference quotients along a line through the point, with an estimate of their rounding error.

The central difference (f(x + h) - f(x - h)) / 2h errs by truncation, f''' h^2 / 6, and by rounding, sqrt(2) s / 2h
where s is the rounding error of a value of f. ``ladder`` removes the truncation error; this module estimates the
rounding error. The outputs are subtracted before they are contracted with the cotangents, so that outputs that do not
depend on the moved element add no error. An output that changes with one step counts for all later, smaller steps too,
where rounding may hide its change; if no output ever changes, all count.
"""

import numpy as np

UNIT_ROUNDOFF = float(np.finfo(np.float64).eps) / 2
_FINE = (
    128 * UNIT_ROUNDOFF
)  # random changes are hardly ever all multiples of so large a power of two


class Line:
    """A function along one line through the point, contracted with the cotangents of its outputs.

    Args:
        values: a function of the signed distance from the point; gives a list of arrays.
        cotangents: one array for each of them.
        base: the values at the point, if they are known already.
        noise: the rounding error of each output, as arrays; half a unit in the last place if not given.
        moving: the error of the contraction from rounding the moved inputs.
        moved: a function from a distance to the distance that the rounded input moves; the identity if not given.

    >>> line = Line(lambda t: [np.array([t**2 + 3 * t])], [np.array([2.0])])
    >>> line.slope(1.0, -1.0)
    6.0
    """

    def __init__(self, values, cotangents, base=None, noise=None, moving=0.0, moved=None):
        self._values = values
        self._cotangents = cotangents
        self._base = base
        self._noise = noise
        self._moving = moving
        self._moved = moved or float
        self._errors = None
        self._touched = None

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
        if self._errors is None:
            self._errors = self._output_errors()
            self._touched = [np.zeros(error.shape, bool) for error in self._errors]
        total = size = 0.0
        for high, low, cotangent, touched in zip(
            above, below, self._cotangents, self._touched, strict=True
        ):
            with np.errstate(invalid="ignore"):
                difference = high - low
                terms = difference * cotangent
                part = float(terms.sum())
                if part != part:  # NaN: inf - inf, from infinite outputs that do not change
                    difference = np.where(high == low, 0.0, difference)
                    terms = difference * cotangent
                    part = float(terms.sum())
            total += part
            size += float(np.abs(terms).sum())
            touched |= difference != 0
        rounding = self._rounding() + self._moving + 2 * UNIT_ROUNDOFF * size
        return total / distance, rounding / distance

    def _rounding(self):
        """The rounding error of the difference of two values."""
        squares = [
            float(np.square(error[touched]).sum())
            for error, touched in zip(self._errors, self._touched, strict=True)
        ]
        if not any(touched.any() for touched in self._touched):
            squares = [float(np.square(error).sum()) for error in self._errors]
        return self._unit * (2 * sum(squares)) ** 0.5

    def _output_errors(self):
        """The error of the contraction from rounding each output, in units of the largest (``_unit``), which keeps the
        squares within range."""
        noise = self._noise or [UNIT_ROUNDOFF * np.abs(value) for value in self.base]
        with np.errstate(all="ignore"):
            errors = [np.abs(e * c) for e, c in zip(noise, self._cotangents, strict=True)]
        errors = [np.where(np.isfinite(error), error, 0.0) for error in errors]
        self._unit = max((float(np.max(e, initial=0.0)) for e in errors), default=0.0) or 1.0
        return [error / self._unit for error in errors]


def _lowest_bit(values):
    """The value of the lowest bit that is set in each number.

    >>> _lowest_bit(np.array([6.0, 0.75, -8.0])).tolist()
    [2.0, 0.25, 8.0]
    """
    mantissa, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    bits = np.ldexp(mantissa, 53).astype(np.int64)
    return np.ldexp((bits & -bits).astype(np.float64), exponent - 53)
