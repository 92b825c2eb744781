"""Writes to inputs or results of an operation before backward: an error, or no effect on the gradient.

The engine checks the versions of the arrays that a rule saves; this also covers the residuals of kernels.
"""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.autograd import PRIMITIVES
from tinyattn.backend import get_backend
from tinyattn.survey.cases import CASES

DRAWN = [
    pytest.param(name, case, id=f"{name}-{number}")
    for name in sorted(CASES)
    for number, case in enumerate(CASES[name])
]


def to_inputs(arrays, device):
    return [
        ta.tensor(array.copy(), requires_grad=array.dtype.kind == "f", device=device)
        if isinstance(array, np.ndarray)
        else array
        for array in arrays
    ]


def to_device(parameters, device):
    def convert(value):
        if isinstance(value, np.ndarray):
            return get_backend(device).asarray(value)
        if isinstance(value, tuple):
            return tuple(convert(entry) for entry in value)
        return value

    return {name: convert(value) for name, value in parameters.items()}


def gradients(name, case, device, written=None):
    """The gradients of a call; ``written`` is the input (or "output") that is overwritten before backward."""
    inputs = to_inputs(case.draw(), device)
    out = PRIMITIVES[name](*inputs, **to_device(case.parameters, device))
    tensors = [value for value in inputs if isinstance(value, ta.Tensor) and value.requires_grad]
    if not out.requires_grad:
        pytest.skip("nothing to differentiate")
    target = out.detach() if written == "output" else written is not None and tensors[written]
    if target is not False and target.size:
        try:
            target.data[...] = 0.123
        except ValueError as error:  # a broadcast result: its elements share memory
            assert "read-only" in str(error)
    g = np.random.default_rng(1).standard_normal(out.shape)
    out.backward(ta.tensor(g, device=out.device))
    return [tensor.grad.numpy() for tensor in tensors if tensor.grad is not None]


@pytest.mark.parametrize(("name", "case"), DRAWN)
def test_a_write_before_backward_is_an_error_or_makes_no_difference(name, case, device):
    check(name, case, device)
    with ta.reference():
        check(name, case, device)


def check(name, case, device):
    expected = gradients(name, case, device)
    floats = [array for array in case.draw() if getattr(array, "dtype", np.dtype(int)).kind == "f"]
    for written in [*range(len(floats)), "output"]:
        try:
            actual = gradients(name, case, device, written)
        except RuntimeError as error:
            assert "changed after it was used" in str(error)
            continue
        for one, other in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=f"after writing to {written}")
