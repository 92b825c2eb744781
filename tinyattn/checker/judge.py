"""The verdict on one element: right, wrong, or inconclusive ("cannot tell").

With the error bar b of the numeric derivative n and the rounding error t of the gradient a itself,

    wrong        |a - n| > allowed  where  allowed = 8 b + 3 t + 1e-15 |a|,
                 and |a - n| > ten times the largest t in the gradient of that argument
    right        otherwise, if allowed <= 9e-7 |n|, or if the element is zero to rounding; the sum over a direction is
                 also right if allowed is small against the root of the sum of squares of its terms
    cannot tell  otherwise: a relative error of 1e-6 would not be seen.

An element is zero to rounding if a and n are within 8 b of zero, a is at most 10 t, and b is small: at most the error
bar of a step of 1e-4 of the element's size, or 1e-9 of the slopes nearby. Then a is 0, or consists of rounding errors,
as the gradient of a bias of keys. A small number that the backward pass computes more accurately, as the gradient of a
saturated tanh, is inconclusive.

An element that is not finite is wrong if all outputs are finite and 8 b is at most a thousandth of n or of the largest
entry.

With ``rtol`` or ``atol`` given, right is |a - n| <= atol min(1, largest entry) + rtol |n| + 2 b, unless b is more than
a thousandth of the largest entry, and wrong is more than 6 b above it.

The factor 8 is calibrated: see ``benchmarks/calibration.py``.
"""

import math
from dataclasses import dataclass

from .report import CANNOT_TELL, WRONG, Element

BARS = 8
RESOLUTION = 9e-7


@dataclass
class Judge:
    """The verdicts on the elements of one argument.

    Attributes:
        scale: the largest entry of the argument's gradient.
        tolerances: ``(rtol, atol)``, or None for error bars.
        of_scale: the part of ``scale`` that ``allowed`` may be, for directions.
        rounding: the largest rounding error in the gradient of the argument.
        is_finite: whether all outputs at the point are finite.
    """

    scale: float
    tolerances: tuple | None = None
    of_scale: float = 0.0
    rounding: float = 0.0
    is_finite: bool = True

    def verdict(self, index, analytic, numeric, bar, rounding=0.0, zero_bar=0.0):
        """The ``Element`` with its verdict.

        Args:
            index: the index of the element, for the report.
            analytic: the gradient to check.
            numeric, bar: the difference quotient and its error bar.
            rounding: the rounding error of ``analytic``.
            zero_bar: the largest error bar with which an element of zero is right.

        >>> Judge(scale=1.0).verdict((0,), 0.53, 0.5123, 3e-11).verdict
        'wrong'
        >>> Judge(scale=1.0).verdict((0,), 0.5, 0.5, 1e-5).verdict
        'cannot tell'
        """
        element = Element(index, analytic, numeric, bar)
        if self.tolerances is not None:
            rtol, atol = self.tolerances
            tolerance = atol * min(1.0, self.scale) + rtol * abs(numeric)
            element.allowed = tolerance + BARS * bar
            small = 2 * bar if bar <= 1e-3 * self.scale else 0.0
            if element.error <= tolerance + small:
                return element
        else:
            element.allowed = BARS * bar + 3 * rounding + 1e-15 * abs(analytic)
        if not math.isfinite(numeric) or not math.isfinite(bar):
            element.verdict = CANNOT_TELL
            element.reason = "the differences of the function do not converge at any step"
        elif not (element.error <= element.allowed and math.isfinite(analytic)):
            element.verdict = WRONG
            if element.error <= 10 * self.rounding:
                element.verdict = CANNOT_TELL
                element.reason = _reason(element, 10 * self.rounding)
            elif not math.isfinite(analytic) and not self._has_finite_slope(element):
                element.verdict = CANNOT_TELL
                element.reason = "the gradient is not finite, and the slope may be infinite"
        elif not self._resolved(element, rounding, zero_bar):
            element.verdict = CANNOT_TELL
            element.reason = _reason(element, 3 * rounding)
        return element

    def _has_finite_slope(self, element):
        largest = max(abs(element.numeric), self.scale)
        return self.is_finite and BARS * element.error_bar <= 1e-3 * largest

    def _resolved(self, element, rounding, zero_bar):
        allowed, size = element.allowed, abs(element.numeric)
        if allowed <= max(RESOLUTION * size, self.of_scale * self.scale):
            return True
        analytic = abs(element.analytic)
        return (
            max(size, analytic) <= BARS * element.error_bar
            and element.error_bar <= zero_bar
            and analytic <= 10 * rounding
        )


def _reason(element, rounding):
    if rounding > 0.5 * element.allowed:
        return f"the backward pass itself rounds by {rounding:.1g}"
    return (
        f"the function's values allow an error bar of {element.error_bar:.1g} only, "
        f"and a millionth of the element is {1e-6 * abs(element.numeric):.1g}"
    )
