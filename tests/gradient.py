"""An independent check of gradients: central differences in float64 against one random cotangent.

Independent of ``tinyattn.gradcheck``, so that an error of the checker cannot hide an error of a rule.
"""

import numpy as np

import tinyattn as ta

STEP = {1: 1e-5, 2: 1e-4}  # measured best for float64; order 2 differences a computed gradient
TOLERANCE = {1: 1e-7, 2: 1e-6}


def check_gradient(fn, *host_arrays, device="cpu", order=2, seed=0):
    """Compare the gradients of ``fn`` with central differences, coordinate by coordinate.

    ``fn`` takes one float64 tensor for each host array and returns a tensor of any shape. Its
    output is contracted with a fixed random cotangent: with a cotangent of ones, softmax or
    layer_norm rules that return zeros would pass. With ``order=2`` the gradient itself, computed
    with ``create_graph=True``, is contracted with random directions, and the gradient of that is
    compared with differences of it.
    """
    random = np.random.default_rng(seed)
    arrays = [np.array(array, dtype=np.float64) for array in host_arrays]
    output = _evaluate(fn, arrays, device)
    cotangent = random.standard_normal(output.shape)

    def value(*points):
        return float(np.sum(_evaluate(fn, points, device) * cotangent))

    gradients = _first_order(fn, arrays, cotangent, device)
    _compare(gradients, _central_differences(value, arrays, STEP[1]), TOLERANCE[1], "gradient")
    if order == 1:
        return
    directions = [random.standard_normal(array.shape) for array in arrays]

    def slope(*points):
        slopes = _first_order(fn, points, cotangent, device)
        return float(sum(np.sum(a * b) for a, b in zip(slopes, directions)))

    _compare(
        _second_order(fn, arrays, cotangent, directions, device),
        _central_differences(slope, arrays, STEP[2]),
        TOLERANCE[2],
        "second-order gradient",
    )


def numerical_gradient(fn, *host_arrays, device="cpu", cotangent, step=STEP[1]):
    """Central differences of ``sum(fn(*inputs) * cotangent)``: one host array for each input."""
    arrays = [np.array(array, dtype=np.float64) for array in host_arrays]
    return _central_differences(
        lambda *points: float(np.sum(_evaluate(fn, points, device) * cotangent)), arrays, step
    )


def _tensors(arrays, device):
    # A copy each: where host memory is device memory, fn must not see the checker's own arrays.
    return [ta.tensor(array.copy(), requires_grad=True, device=device) for array in arrays]


def _evaluate(fn, arrays, device):
    with ta.no_grad():
        return fn(*_tensors(arrays, device)).numpy()


def _first_order(fn, arrays, cotangent, device):
    inputs = _tensors(arrays, device)
    output = fn(*inputs)
    gradients = ta.grad(
        output, inputs, grad_outputs=ta.tensor(cotangent, device=device), allow_unused=True
    )
    return _on_host(gradients, arrays)


def _second_order(fn, arrays, cotangent, directions, device):
    inputs = _tensors(arrays, device)
    first = ta.grad(
        fn(*inputs),
        inputs,
        grad_outputs=ta.tensor(cotangent, device=device),
        create_graph=True,
        allow_unused=True,
    )
    total = None
    for gradient, direction in zip(first, directions):
        if gradient is None or not gradient.requires_grad:
            continue  # a gradient that does not depend on any input
        term = (gradient * ta.tensor(direction, device=device)).sum()
        total = term if total is None else total + term
    if total is None:  # fn is linear: every second derivative is zero
        return [np.zeros_like(array) for array in arrays]
    return _on_host(ta.grad(total, inputs, allow_unused=True), arrays)


def _on_host(gradients, arrays):
    return [
        np.zeros_like(array) if gradient is None else gradient.numpy()
        for gradient, array in zip(gradients, arrays)
    ]


def _central_differences(value, arrays, step):
    points = [array.copy() for array in arrays]
    gradients = []
    for point in points:
        gradient = np.zeros(point.size)
        flat = point.reshape(-1)
        for i in range(point.size):
            middle = flat[i]
            flat[i] = middle + step
            above = value(*points)
            flat[i] = middle - step
            below = value(*points)
            flat[i] = middle
            gradient[i] = (above - below) / (2 * step)
        gradients.append(gradient.reshape(point.shape))
    return gradients


def _compare(actual, expected, tolerance, what):
    for position, (computed, differences) in enumerate(zip(actual, expected)):
        np.testing.assert_allclose(
            computed,
            differences,
            rtol=tolerance,
            # An entry that is zero in truth has only the others to be measured against.
            atol=tolerance * max(1.0, float(np.max(np.abs(differences), initial=0.0))),
            err_msg=f"{what} of input {position} differs from central differences",
        )
