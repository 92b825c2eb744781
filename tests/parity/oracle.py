"""PyTorch as an oracle: the same function in both libraries, with its gradients of first and second order."""

import numpy as np
import torch

import tinyattn as ta


def assert_agreement(ours, theirs, *arrays, rtol=1e-9, atol=1e-11, seed=0):
    """Hold a function of tensors against its counterpart in PyTorch, in float64.

    Compared are the output, the gradients for a random cotangent, and the gradients of those along random directions:
    with respect to the inputs, and to the cotangent, in which a vector-Jacobian product must be linear.
    """
    random = np.random.default_rng(seed)
    arrays = [np.array(array, np.float64) for array in arrays]
    with torch.no_grad():
        expected = theirs(*[torch.tensor(array) for array in arrays]).numpy()
    cotangent = random.standard_normal(expected.shape)
    directions = [random.standard_normal(array.shape) for array in arrays]
    found = _derivatives(ours, arrays, cotangent, directions, _OURS)
    wanted = _derivatives(theirs, arrays, cotangent, directions, _THEIRS)
    for name, actual, right in zip(("output", "gradients", "second order"), found, wanted):
        for position, (a, b) in enumerate(zip(actual, right)):
            assert a.shape == b.shape, f"{name}, {position}: {a.shape} instead of {b.shape}"
            np.testing.assert_allclose(
                a, b, rtol=rtol, atol=atol, err_msg=f"{name}, {position}, differs from PyTorch's"
            )


def _derivatives(function, arrays, cotangent, directions, library):
    make, grad = library
    inputs = [make(array, True) for array in arrays]
    g = make(cotangent, True)
    output = function(*inputs)
    first = grad(output, inputs, g, True)
    total = sum(
        (gradient * make(direction, False)).sum()
        for gradient, direction in zip(first, directions)
        if gradient is not None and gradient.requires_grad
    )
    depends = hasattr(total, "requires_grad")
    second = grad(total, [*inputs, g], None, False) if depends else [None] * (len(inputs) + 1)
    return (
        [_host(output, cotangent)],
        [_host(value, like) for value, like in zip(first, arrays)],
        [_host(value, like) for value, like in zip(second, [*arrays, cotangent])],
    )


def _host(value, like):
    if value is None:
        return np.zeros_like(like)
    return value.detach().numpy(force=True) if isinstance(value, torch.Tensor) else value.numpy()


def _our_grad(output, inputs, g, create_graph):
    return ta.grad(output, inputs, g, create_graph=create_graph, allow_unused=True)


def _their_grad(output, inputs, g, create_graph):
    return torch.autograd.grad(output, inputs, g, create_graph=create_graph, allow_unused=True)


_OURS = (lambda array, wanted: ta.tensor(array, requires_grad=wanted), _our_grad)
_THEIRS = (lambda array, wanted: torch.tensor(array, requires_grad=wanted), _their_grad)
