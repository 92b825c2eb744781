"""Find defects of a backward pass other than wrong values: hidden state, uninitialized memory, strides, dtypes.

The backward pass runs once more at the point, late in the check, with inputs that are not contiguous and with NaN in
uninitialized memory. If it returns the gradients of the first run, it has none of these defects. Otherwise each
condition is tested separately: plain repetition, strides, NaN in uninitialized memory.
"""

import numpy as np

from .bits import same_bits
from .precision import UNIT_ROUNDOFFS
from .report import Finding

# Differences that a different order of summation may cause: relative to the largest entry of a gradient, and, for
# gradients that are zero up to rounding, to that of all gradients. In low precision, in units in the last place.
_SAME, _SAME_AS_ALL = 1e-10, 1e-13
_SAME_ULP = 100


def findings_of(problem, cotangents, returned, analytic):
    """The ``Finding``s of a problem, including those of its adapter.

    Args:
        returned: the gradients of the first run, the arrays that were returned.
        analytic: copies of these arrays, made before any later call.
    """
    found = [*_of_kept_arrays(problem, returned, analytic), *_of_dtypes(problem, returned)]
    with problem.undefined_memory():
        again = problem.gradients(cotangents, strided=True)
    pairs = list(zip(analytic, again, strict=True))
    if not all(_identical(one, other) for one, other in pairs):
        floor = _floor(analytic)
        if not all(_same(one, other, floor) for one, other in pairs):
            found.append(_isolated(problem, cotangents, analytic, floor))
    return problem.findings + found


def _isolated(problem, cotangents, first, floor):
    """The finding for gradients that differ from those of the first run: tests one condition at a time."""
    plain = [_copies(problem.gradients(cotangents)) for _ in range(3)]
    for argument, one, *others in zip(problem.arguments, first, *plain, strict=True):
        if not all(_same(one, other, floor) for other in others):
            return _of_repetition(argument.name, one, *others, floor)
    strided = problem.gradients(cotangents, strided=True)
    for argument, one, other in zip(problem.arguments, first, strided, strict=True):
        if not _same(one, other, floor):
            text = (
                f"the gradient of {argument.name} differs by {_distance(one, other):.3g} for inputs and cotangents "
                "of equal values that are not contiguous in memory"
            )
            return Finding("depends on strides", argument.name, text)
    with problem.undefined_memory():
        poisoned = problem.gradients(cotangents)
    for argument, one, other in zip(problem.arguments, first, poisoned, strict=True):
        if not _same(one, other, floor):
            text = (
                f"the gradient of {argument.name} depends on uninitialized memory: "
                "use zeros instead of empty, or fill the buffer"
            )
            return Finding("undefined buffer", argument.name, text)
    text = "one of several calls with the same inputs gave different gradients"
    return Finding("not deterministic", None, text)


def _of_repetition(name, first, second, third, fourth, floor):
    """The finding for a gradient that differs between the first call and three consecutive later ones."""
    if _shapes_agree(first, second, third, fourth):
        step = third.astype(np.float64) - second
        if _same(fourth - third, step, floor) and _is_multiple(step, first, floor):
            text = (
                f"each call adds to the gradient of {name} of the previous call: "
                "return a new array, or start from zeros"
            )
            return Finding("adds into a gradient", name, text)
    if _same(second, third, floor) and _same(third, fourth, floor):
        text = f"the gradient of {name} depends on earlier calls at other points: state is kept between calls"
        return Finding("keeps state", name, text)
    text = f"two calls with the same inputs give gradients of {name} that differ by {_distance(third, fourth):.3g}"
    return Finding("not deterministic", name, text)


def _copies(gradients):
    return [None if gradient is None else gradient.copy() for gradient in gradients]


def _of_kept_arrays(problem, returned, analytic):
    """Findings for a backward pass that writes its next gradient into the array that it returned before."""
    for argument, gradient, held in zip(problem.arguments, returned, analytic, strict=True):
        if gradient is not None and not same_bits(gradient, held):
            text = f"a later call changes the gradient of {argument.name} returned before: return a new array"
            yield Finding("keeps state", argument.name, text)


def _of_dtypes(problem, returned):
    for argument, gradient in zip(problem.arguments, returned, strict=True):
        if gradient is None:
            continue
        wanted = argument.start.dtype.newbyteorder("=")
        if gradient.dtype.newbyteorder("=") != wanted:
            text = (
                f"the gradient of {argument.name} is {gradient.dtype}, expected its dtype, {wanted}"
            )
            yield Finding("wrong dtype", argument.name, text)


def _identical(one, other):
    if one is None or other is None:
        return one is other
    return one.dtype == other.dtype and same_bits(one, other)


def _same(one, other, floor):
    if one is None or other is None:
        return one is other
    if one.shape != other.shape:
        return False
    tolerance = max(_SAME, _SAME_ULP * 2 * UNIT_ROUNDOFFS.get(one.dtype.name, 0.0))
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    return np.allclose(one, other, rtol=0.0, atol=tolerance * _largest(one) + floor, equal_nan=True)


def _floor(gradients):
    known = [gradient for gradient in gradients if gradient is not None]
    units = [UNIT_ROUNDOFFS.get(gradient.dtype.name, 0.0) for gradient in known]
    relative = max(_SAME_AS_ALL, max(units, default=0.0))
    return relative * max(map(_largest, known), default=0.0)


def _largest(gradient):
    sizes = np.abs(np.asarray(gradient, np.float64))
    return float(np.max(sizes, initial=0.0, where=np.isfinite(sizes)))


def _shapes_agree(*arrays):
    return all(array is not None and array.shape == arrays[0].shape for array in arrays)


def _is_multiple(step, gradient, floor):
    """Whether every call adds the same array again, and that array is the gradient, up to a factor."""
    size = float(np.sum(gradient.astype(np.float64) ** 2))
    if not size:
        return False
    factor = float(np.sum(step * gradient)) / size
    return factor > 0 and _same(step, factor * gradient, floor)


def _distance(one, other):
    if not _shapes_agree(one, other):
        return np.inf
    return float(np.max(np.abs(one - other), initial=0.0))
