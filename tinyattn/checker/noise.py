"""Estimate the rounding errors of a function and of its gradient by perturbing the inputs by a few dozen ulps.

Outputs: the function is evaluated at five evenly spaced points. Over such a distance a smooth function is linear, so
that its second differences consist of rounding errors: their standard deviation is sqrt(6) times that of a value. The
median of the three second differences is used, so that a jump at one end has no effect. The estimate is at least half
an ulp (unit in the last place) of the output.

Gradients: the largest difference between the gradients at these points and the gradient at the point itself. It is the
accuracy that the backward pass loses to rounding and cancellation; no check can be more accurate.

Source: J. J. More and S. M. Wild, "Estimating computational noise" (2011), section 3, for the difference table.
"""

import functools
import math

import numpy as np

from .numeric import UNIT_ROUNDOFF, OutputErrors

_POINTS = (-2, -1, 1, 2)
_MEDIAN_TO_DEVIATION = 1.4826


class Noise:
    """The rounding errors at the point of a problem, measured on first access.

    Args:
        samples: at how many of the four points the gradient is computed. With few, a rounding error of one unit in the
            last place of a sum may be the same at all of them by chance.

    Attributes:
        outputs: for each output an array of standard deviations.
        output_errors: ``outputs`` as ``OutputErrors``.
        gradients: for each argument an array of absolute differences.
    """

    def __init__(self, problem, cotangents, base, analytic, samples=4):
        self._problem = problem
        self._cotangents = cotangents
        self._base = base
        self._analytic = analytic
        self._samples = samples
        self._measured = None

    @property
    def evaluations(self):
        """How many evaluations the measurement takes."""
        return len(_POINTS) + self._samples

    @property
    def outputs(self):
        return self._measure()[0]

    @property
    def gradients(self):
        return self._measure()[1]

    @functools.cached_property
    def output_errors(self):
        return OutputErrors(self.outputs, self._cotangents)

    def _measure(self):
        if self._measured is None:
            with np.errstate(all="ignore"):
                self._measured = self._of_outputs_and_gradients()
        return self._measured

    def _of_outputs_and_gradients(self):
        random = np.random.default_rng(0)
        directions = [_last_bits(argument.start, random) for argument in self._problem.arguments]
        rows, deviations = [], [np.zeros(a.shape) for a in self._problem.arguments]
        try:
            for point in _POINTS:
                for argument, direction in zip(self._problem.arguments, directions, strict=True):
                    argument.move(direction, point)
                rows.append(self._problem.values())
                if point in _POINTS[-self._samples :]:
                    self._widen(deviations, self._problem.gradients(self._cotangents))
        finally:
            for argument in self._problem.arguments:
                argument.restore()
        rows.insert(2, self._base)
        return [_deviation(np.stack(points)) for points in zip(*rows, strict=True)], deviations

    def _widen(self, deviations, gradients):
        for deviation, gradient, analytic in zip(
            deviations, gradients, self._analytic, strict=True
        ):
            if gradient is not None and analytic is not None:
                change = np.abs(gradient - analytic)
                np.maximum(deviation, np.where(np.isfinite(change), change, 0.0), out=deviation)


def _last_bits(start, random):
    """A random direction with entries of 16 to 64 units in the last place."""
    if start.size == 0:
        return np.zeros(start.shape)
    magnitude = np.abs(np.where(np.isfinite(start), start, 1.0))
    typical = float(magnitude.max()) or 1.0
    unit = np.spacing(np.maximum(magnitude, 1e-3 * typical))
    return unit * random.integers(16, 65, start.shape) * random.choice([-1.0, 1.0], start.shape)


def _deviation(points):
    """The standard deviation of the rounding error of each output, from its values at the five points."""
    first, second, third = np.abs(points[2:] - 2 * points[1:-1] + points[:-2])
    median = np.maximum(np.minimum(first, second), np.minimum(np.maximum(first, second), third))
    measured = _MEDIAN_TO_DEVIATION * median / math.sqrt(6)
    least = UNIT_ROUNDOFF * np.abs(points[2])
    return np.where(np.isfinite(measured), np.maximum(measured, least), least)
