"""Compare a primitive with the expected values at an extreme."""

import numpy as np

import tinyattn as ta
from tinyattn.autograd import PRIMITIVES


def check_extreme(extreme, device="cpu", dtype="float64"):
    """Raise AssertionError if the output or a gradient differs from the expected one."""
    primitive = PRIMITIVES[extreme.primitive]
    inputs = [_as_input(value, device, dtype) for value in extreme.inputs]
    for position, value in enumerate(inputs):
        if isinstance(value, ta.Tensor) and value.dtype.kind == "f":
            value.requires_grad = primitive.differentiable(position)
    out = primitive(*inputs, **extreme.parameters)
    tolerance = extreme.tolerance[dtype]
    assert out.dtype == dtype
    if extreme.output is not None:
        _equal(out.numpy(), extreme.output, tolerance, "output", extreme.relative)
    wanted = [
        (position, value)
        for position, value in enumerate(inputs)
        if isinstance(value, ta.Tensor) and value.requires_grad
    ]
    g = ta.tensor(np.asarray(extreme.cotangent, dtype), device=device)
    gradients = ta.grad(out, [value for _, value in wanted], g)
    for (position, value), gradient in zip(wanted, gradients, strict=True):
        assert gradient.shape == value.shape and gradient.dtype == dtype
        expected = extreme.gradients[position]
        _equal(gradient.numpy(), expected, tolerance, f"gradient {position}", extreme.relative)
    if extreme.bend:
        direction, expected = (np.asarray(array, dtype) for array in extreme.bend)
        x = wanted[0][1]
        (gradient,) = ta.grad(primitive(*inputs, **extreme.parameters), [x], g, create_graph=True)
        (bend,) = ta.grad(gradient, [x], ta.tensor(direction, device=device))
        _equal(bend.numpy(), expected, tolerance, "second order")


def _as_input(value, device, dtype):
    if value is None or isinstance(value, (int, float)):
        return value
    array = np.asarray(value)
    return ta.tensor(array.astype(dtype) if array.dtype.kind == "f" else array, device=device)


def _equal(actual, expected, tolerance, what, relative=False):
    expected = np.asarray(expected, dtype=np.float64)
    if relative:
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=0, err_msg=what)
        return
    finite = np.abs(expected[np.isfinite(expected)])
    scale = max(1.0, float(np.max(finite, initial=0.0)))
    np.testing.assert_allclose(
        actual, expected, rtol=tolerance, atol=tolerance * scale, err_msg=what
    )
