"""Complex-step derivatives, which need no difference and so have no cancellation.

For an analytic f, f(x + ih) = f(x) + ih f'(x) - h^2 f''(x) / 2 - ..., so that Im f(x + ih) / h = f'(x) up to h^2.
With h = 1e-20 the slope is exact to rounding. For a function that is not analytic the result is silently wrong: |x|
drops the imaginary part. A function is therefore rejected if it runs such an operation, or if the complex step and
a finite difference disagree along a random direction.

Source: W. Squire and G. Trapp, "Using complex variables to estimate derivatives of real functions" (1998).
"""

import numpy as np

from ..autograd import reference
from .ladder import slope_of

STEP = 1e-20

NOT_ANALYTIC = frozenset(
    "absolute maximum minimum max min clip relu where masked_fill sign floor ceil round norm".split()
)


def complex_slopes(problem, cotangents):
    """The slope of every element of every argument: host arrays of the arguments' shapes.

    Raises:
        ValueError: if the function is not analytic, or cannot be run on complex numbers.
    """
    names = [name for name in problem.operations() if name in NOT_ANALYTIC]
    if names:
        raise ValueError(
            f"a complex step cannot be used with {', '.join(names)}, which is not analytic: "
            'use oracle="difference"'
        )
    twin = problem.with_dtype(np.complex128)
    with twin.running(), reference():
        slopes = [_slopes_of(twin, argument, cotangents) for argument in twin.arguments]
    _reject_if_not_analytic(problem, slopes, cotangents)
    return slopes


def _slopes_of(twin, argument, cotangents):
    slopes = np.zeros(argument.shape)
    for index in argument.indices():
        try:
            slopes[index] = twin.line(argument, index, cotangents).complex_slope(STEP)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f'the function cannot be run on complex numbers ({error}): use oracle="difference"'
            ) from error
    return slopes


def _reject_if_not_analytic(problem, slopes, cotangents):
    random = np.random.default_rng(0)
    for argument, slope in zip(problem.arguments, slopes, strict=True):
        if not slope.size:
            continue
        direction = random.standard_normal(argument.shape)
        others = [np.zeros(other.shape) for other in problem.arguments]
        others[problem.arguments.index(argument)] = direction
        measured = slope_of(problem.line_along(others, cotangents), 1e-3).slope
        expected = float(np.sum(slope * direction))
        if not abs(measured - expected) <= 1e-5 * np.sum(np.abs(slope * direction)) + 1e-8:
            raise ValueError(
                f"the function is not analytic in {argument.name}: a complex step gives the slope {expected:.6g} along "
                f'a random direction, a difference {measured:.6g}; use oracle="difference"'
            )
