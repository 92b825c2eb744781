"""Compare two attention functions: outputs and all gradients, for a random cotangent."""

import numpy as np

import tinyattn as ta


def outputs_and_gradients(function, arrays, cotangent, device):
    """The output of ``function``, and the gradients of its inner product with ``cotangent``."""
    inputs = [ta.tensor(array, requires_grad=True, device=device) for array in arrays]
    output = function(*inputs)
    output.backward(ta.tensor(cotangent.astype(arrays[0].dtype), device=device))
    return [output.numpy(), *(tensor.grad.numpy() for tensor in inputs)]


def assert_equal_attention(function, reference, arrays, random, device, tolerance=1e-10):
    """Outputs and gradients of both functions agree."""
    cotangent = random.standard_normal((*arrays[0].shape[:-1], arrays[2].shape[-1]))
    found = outputs_and_gradients(function, arrays, cotangent, device)
    expected = outputs_and_gradients(reference, arrays, cotangent, device)
    for name, one, other in zip(("out", "dq", "dk", "dv"), found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance, err_msg=name)


def draw(random, queries, keys=None, head_dim=4, leading=(2, 3), value_dim=None, dtype=np.float64):
    """Queries, keys and values of the given lengths."""
    keys = queries if keys is None else keys
    shapes = (queries, head_dim), (keys, head_dim), (keys, value_dim or head_dim)
    return [random.standard_normal((*leading, *shape)).astype(dtype) for shape in shapes]


def root_mean_square(difference):
    return np.sqrt(np.mean(difference**2.0))


def largest(difference):
    return np.abs(difference).max()


def error_against_float64(function, reference, arrays, device, norm=root_mean_square):
    """The error of each output and gradient in float32, and that of ``reference``, against float64.

    By root mean square, as the ``largest`` element of one draw, and by how much it is off, is an accident.
    """
    random = np.random.default_rng(1)
    cotangent = random.standard_normal((*arrays[0].shape[:-1], arrays[2].shape[-1]))
    cotangent = cotangent.astype(np.float32).astype(np.float64)
    exact = outputs_and_gradients(
        reference, [a.astype(np.float64) for a in arrays], cotangent, device
    )
    errors = []
    for candidate in (function, reference):
        found = outputs_and_gradients(candidate, arrays, cotangent, device)
        errors.append([norm(a - b) for a, b in zip(found, exact, strict=True)])
    return errors
