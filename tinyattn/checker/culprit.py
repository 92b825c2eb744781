"""Find the operation whose gradient is wrong when the gradient of a whole function is.

The function runs once more, and each of its operations is checked separately, at the inputs that it received.
"""

import numpy as np

from ..autograd import Tensor
from ..autograd.modes import watch_operations
from ..backend import backend_of, is_array

MAX_CALLS = 300


def operations_of(problem):
    """The names of the primitives that the function runs, in the order of their first use."""
    names = {}  # keys in order of insertion, each once
    with watch_operations(lambda primitive, arrays, parameters: names.setdefault(primitive.name)):
        problem.run()
    return tuple(names)


def find_culprit(problem):
    """The name of the first operation whose own gradient is wrong; None if all are right or there are too many.

    Args:
        problem: the function, as a ``FirstOrder`` problem.
    """
    from .check import gradient_report  # which calls this function

    calls = []

    def record(primitive, arrays, parameters):
        if len(calls) <= MAX_CALLS and any(map(_is_double, arrays)):
            copies = [array.copy() if is_array(array) else array for array in arrays]
            calls.append((primitive, copies, dict(parameters)))

    with watch_operations(record):
        problem.run()
    if len(calls) > MAX_CALLS:
        return None
    for primitive, arrays, parameters in calls:
        inputs = [Tensor(x, device=backend_of(x).device) if is_array(x) else x for x in arrays]
        call, checked = call_of_primitive(primitive, inputs, parameters)
        settings = {"mode": "directional", "directions": 3}
        if checked and not gradient_report(call, checked, **settings).passed:
            return primitive.name
    return None


def call_of_primitive(primitive, inputs, parameters):
    """One call as a function of its differentiable float64 inputs alone: ``(function, these inputs)``."""
    positions = [
        position
        for position, value in enumerate(inputs)
        if _is_double(value) and primitive.differentiable(position)
    ]

    def call(*tensors):
        arguments = list(inputs)
        for position, tensor in zip(positions, tensors, strict=True):
            arguments[position] = tensor
        return primitive(*arguments, **parameters)

    call.__name__ = primitive.name
    return call, [inputs[position] for position in positions]


def _is_double(value):
    return getattr(value, "dtype", None) == np.float64
