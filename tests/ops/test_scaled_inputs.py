"""Each operation at inputs scaled by powers of two equals float64, where float32 holds the result.

The operations are found by asking the survey for its cases. Squares and sums that overflow or underflow on the way to a
result of ordinary size show here as zeros, infinities or NaN.
"""

import contextlib

import numpy as np
import pytest

import tinyattn as ta
from tests.kernels.cuda.tools import need_compiler
from tinyattn.kernels.cuda import simulated_kernels
from tinyattn.survey.cases import CASES

WAYS = {
    "rules": (ta.reference, "cpu"),
    "cpu": (contextlib.nullcontext, "cpu"),
    "portable": (contextlib.nullcontext, "strict"),
    "cuda, simulated": (simulated_kernels, "strict"),
}
EXPONENTS = (-75, 66, 100)  # of 2: squares underflow, overflow
# Queries and keys are not scaled together: their products, which are inputs of exp, would overflow.
PRODUCTS_OF_SCORES = {"attention", "window_attention", "ring_attention"}
LEFT_OUT = {"distributed_ring_attention", "astype", "to_device"}  # of one device or dtype each


def is_float(value):
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def results(name, case, arrays, dtype, way):
    """The output and the gradients of a call, host arrays in float64."""
    context, device = WAYS[way]
    inputs = [
        ta.tensor(array, dtype=dtype, requires_grad=True, device=device)
        if is_float(array)
        else ta.tensor(array, device=device)
        if isinstance(array, np.ndarray)
        else array
        for array in arrays
    ]
    with context():
        out = ta.autograd.PRIMITIVES[name](*inputs, **case.parameters)
        if not out.requires_grad:
            return [out.numpy()]
        g = np.random.default_rng(1).standard_normal(out.shape).astype("float32")
        leaves = [x for x in inputs if isinstance(x, ta.Tensor) and x.requires_grad]
        gradients = ta.grad(out, leaves, ta.tensor(g.astype(dtype), device=device))
    return [out.numpy(), *(gradient.numpy() for gradient in gradients)]


def scaled(name, arrays):
    """The inputs with each of them, and all of them, scaled by each power."""
    floats = [position for position, array in enumerate(arrays) if is_float(array)]
    groups = [[position] for position in floats]
    if len(floats) > 1 and name not in PRODUCTS_OF_SCORES:
        groups.append(floats)
    for group in groups:
        for exponent in EXPONENTS:
            yield [
                array * 2.0**exponent if position in group else array
                for position, array in enumerate(arrays)
            ]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", sorted(set(CASES) - LEFT_OUT))
def test_scaled_inputs(name, way):
    if way == "cuda, simulated":
        need_compiler()
    largest = float(np.finfo("float32").max)
    for case in CASES[name][:2]:
        arrays = case.draw()
        arrays = [a.astype("float32").astype("float64") if is_float(a) else a for a in arrays]
        for inputs in scaled(name, arrays):
            exact = results(name, case, inputs, "float64", "rules")
            for found, expected in zip(results(name, case, inputs, "float32", way), exact):
                # Near the largest number, sums on the way may overflow; small results may be differences of large ones.
                size = np.abs(expected)
                held = (size > 1e-36) & (size < largest / 64)
                held &= size > 1e-4 * size[size < largest].max(initial=0)
                np.testing.assert_allclose(
                    found[held], expected[held], rtol=1e-3, err_msg=str(case)
                )
