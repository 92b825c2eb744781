"""Slopes by a complex step: no difference is formed, so that nothing cancels.

For an analytic f, f(x + ih) = f(x) + ih f'(x) - h^2 f''(x) / 2 - ..., so that Im f(x + ih) / h = f'(x) up to h^2.
With h = 1e-20 the slope is exact to rounding. A function that is not analytic breaks this silently: |x| drops the
imaginary part. So a function is refused if it runs such an operation, or if a complex step and an ordinary
difference do not agree along a random direction.

Source: W. Squire and G. Trapp, "Using complex variables to estimate derivatives of real functions" (1998).
"""

import numpy as np

from ..autograd import reference
from .numeric import Line, extrapolated
from .problem import Argument, FirstOrder, lent_arrays
from .words import operations_of

STEP = 1e-20

NOT_ANALYTIC = frozenset(
    "absolute maximum minimum max min clip relu where masked_fill sign floor ceil round norm".split()
)


def complex_slopes(problem, cotangents):
    """The slope of every element of every argument: host arrays of the arguments' shapes.

    Raises:
        ValueError: if the function is not analytic, or cannot be run on complex numbers.
    """
    names = [name for name in operations_of(problem) if name in NOT_ANALYTIC]
    if names:
        raise ValueError(
            f"a complex step does not go through {', '.join(names)}, which is not analytic: "
            'use oracle="difference"'
        )
    twins = [
        Argument(a.name, a.start, a.parameter, np.complex128, a.backend) for a in problem.arguments
    ]
    twin_of = dict(zip(problem.arguments, twins, strict=True))
    slots = [twin_of.get(s, s) if isinstance(s, Argument) else s for s in problem._slots]
    twin = FirstOrder(problem._fn, problem._inputs, twins, slots)
    with lent_arrays(twins), reference():
        slopes = [_slopes_of(twin, argument, cotangents) for argument in twins]
    _refuse_if_not_analytic(problem, slopes, cotangents)
    return slopes


def _slopes_of(twin, argument, cotangents):
    slopes = np.zeros(argument.shape)
    for index in argument.indices():
        argument.move(index, 1j * STEP)
        try:
            values = twin.values()
        except (TypeError, ValueError) as error:
            raise ValueError(
                f'the function cannot be run on complex numbers ({error}): use oracle="difference"'
            ) from error
        finally:
            argument.restore(index)
        slopes[index] = sum(
            float(np.sum(np.imag(value) / STEP * cotangent))
            for value, cotangent in zip(values, cotangents, strict=True)
        )
    return slopes


def _refuse_if_not_analytic(problem, slopes, cotangents):
    random = np.random.default_rng(0)
    for argument, slope in zip(problem.arguments, slopes, strict=True):
        if not slope.size:
            continue
        direction = random.standard_normal(argument.shape)

        def values(distance, argument=argument, direction=direction):
            argument.move(direction, distance)
            try:
                return problem.values()
            finally:
                argument.restore(direction)

        measured, _, _ = extrapolated(Line(values, cotangents), 1e-3)
        expected = float(np.sum(slope * direction))
        if not abs(measured - expected) <= 1e-5 * np.sum(np.abs(slope * direction)) + 1e-8:
            raise ValueError(
                f"the function is not analytic in {argument.name}: a complex step gives the slope {expected:.6g} along "
                f'a random direction, a difference {measured:.6g}; use oracle="difference"'
            )
