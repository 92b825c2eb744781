"""Which operation is at fault when the gradient of a whole function is wrong.

The function is run once more, and each operation that it runs is checked by itself, at the very numbers that it met.
"""

import numpy as np

from ..autograd import Tensor
from ..autograd.modes import watch_operations
from ..backend import backend_of, is_array

MOST_CALLS = 300


def find_culprit(problem, examine):
    """The name of the first operation whose own gradient is wrong; None if all are right or there are too many.

    Args:
        problem: the function, as a ``FirstOrder`` problem.
        examine: ``check.examine``.
    """
    calls = []

    def note(primitive, arrays, parameters):
        if len(calls) <= MOST_CALLS and any(map(_is_checked, arrays)):
            copies = [array.copy() if is_array(array) else array for array in arrays]
            calls.append((primitive, copies, dict(parameters)))

    with watch_operations(note):
        problem.run()
    if len(calls) > MOST_CALLS:
        return None
    for primitive, arrays, parameters in calls:
        if not _is_right(primitive, arrays, parameters, examine):
            return primitive.name
    return None


def _is_checked(value):
    return is_array(value) and value.dtype == np.float64


def _is_right(primitive, arrays, parameters, examine):
    positions = [
        position
        for position, value in enumerate(arrays)
        if _is_checked(value) and primitive.differentiable(position)
    ]
    if not positions:
        return True

    def call(*tensors):
        inputs = [
            Tensor(value, device=backend_of(value).device) if is_array(value) else value
            for value in arrays
        ]
        for position, tensor in zip(positions, tensors, strict=True):
            inputs[position] = tensor
        return primitive(*inputs, **parameters)

    inputs = [Tensor(arrays[p], device=backend_of(arrays[p]).device) for p in positions]
    report = examine(call, inputs, mode="directional", directions=3, find_fault=False)
    return report.passed
