"""Compare low-precision gradients with float64 gradients: does rounding explain the difference?

The function at a float64 copy of the point, with the same cotangents, gives the exact gradient, which the differences
have checked. A low-precision gradient may differ from it by an error budget. Every operation of a backward pass rounds
its result by a relative u, the unit roundoff, which acts as a relative change of u of what that operation got: hence by
as much as the exact gradient changes when all inputs and cotangents change by a random relative u, once for each
operation. With s_i the largest such change of element i over a few draws,

    budget_i = F (max(s_i, rms(s) / 2) + u |a_i|),   F = 10 sqrt(1 + operations) + log2(largest number of summands)

where the root is that of a random walk, and the logarithm allows sums in pairs. Errors are stated in units in the last
place, ulp = 2 u max(|a_i|, rms(a)). The factor 10 is calibrated on the operations of this library; see
``benchmarks/calibration.py``.

Source: N. J. Higham, "Accuracy and Stability of Numerical Algorithms" (2002), sections 1.5 (backward error times
conditioning) and 4.2 (pairwise summation).
"""

import math

import numpy as np

from .report import Precision

UNIT_ROUNDOFFS = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
}
_SMALLEST = {"float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133}
_DRAWS = 4


def is_low(problem):
    """Whether any argument of a problem has less than double precision."""
    return any(argument.precision != "float64" for argument in problem.arguments)


def measure_precision(low, exact, low_cotangents, cotangents):
    """One ``Precision`` for each argument of the problem ``low``; ``exact`` is the same in float64."""
    coarsest = max((argument.precision for argument in low.arguments), key=UNIT_ROUNDOFFS.get)
    with low.running(), np.errstate(all="ignore"):
        gradients = low.gradients(low_cotangents)
    with exact.running(), np.errstate(all="ignore"):
        truth = exact.gradients(cotangents)
        spread = _spread(exact, cotangents, truth, UNIT_ROUNDOFFS[coarsest])
    sizes = [argument.start.size for argument in exact.arguments] + [c.size for c in cotangents]
    factor = 10 * math.sqrt(1 + len(low.operations())) + math.log2(max(2, *sizes))
    return [
        _precision(argument.precision, coarsest, gradient, true, changes, factor)
        for argument, gradient, true, changes in zip(
            low.arguments, gradients, truth, spread, strict=True
        )
    ]


def _spread(exact, cotangents, truth, unit):
    """s: the largest change of the exact gradients over random relative changes of inputs and cotangents."""
    random = np.random.default_rng(0)
    spread = [np.zeros(argument.shape) for argument in exact.arguments]
    try:
        for _ in range(_DRAWS):
            for argument in exact.arguments:
                change = argument.start * random.uniform(-1, 1, argument.shape)
                argument.move(change, unit)
            moved = [c * (1 + unit * random.uniform(-1, 1, c.shape)) for c in cotangents]
            for changes, gradient, true in zip(spread, exact.gradients(moved), truth, strict=True):
                if gradient is not None and true is not None:
                    np.fmax(changes, np.abs(gradient - true), out=changes)
    finally:
        for argument in exact.arguments:
            argument.restore()
    return spread


def _precision(name, coarsest, gradient, true, spread, factor):
    """The ``Precision`` of one argument; its worst element has the largest ratio of error to budget."""
    if true is None or true.size == 0:
        return Precision(name, 0.0, 0.0)
    unit = UNIT_ROUNDOFFS[coarsest]
    low = np.zeros(true.shape) if gradient is None else np.asarray(gradient, np.float64)
    size = float(np.sqrt(np.mean(np.square(true))))
    changes = np.maximum(spread, 0.5 * np.sqrt(np.mean(np.square(spread))))
    budget = factor * (changes + unit * np.abs(true)) + _SMALLEST.get(coarsest, 0.0)
    error = np.abs(low - true)
    excess = np.where(np.isfinite(true), error / np.maximum(budget, 1e-300), 0.0)
    excess = np.where(np.isnan(excess), np.inf, excess)
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(excess)), true.shape))
    ulp = max(2 * unit * max(abs(float(true[index])), size), _SMALLEST.get(coarsest, 1e-300))
    worst = float(error[index]) / ulp
    return Precision(
        dtype=name,
        ulp=math.inf if math.isnan(worst) else worst,
        expected=float(budget[index]) / ulp,
        index=index,
        low=float(low[index]),
        exact=float(true[index]),
    )
