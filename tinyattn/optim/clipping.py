"""Gradient clipping by the total norm."""

import math

import numpy as np

from ..autograd import Tensor
from ..backend import array_namespace, listed
from ..kernels.updates import find_update


def clip_grad_norm(parameters, max_norm, norm_type=2.0):
    """Scale all gradients in place so that their total norm is at most ``max_norm``; returns the norm before clipping.

    The norm is that of all gradients as one vector; a repeated parameter counts once. If the norm is NaN or infinite
    the gradients are unchanged: check the return value with ``math.isfinite``.

    Args:
        parameters: a tensor or a list of tensors; those without gradient are ignored.
        max_norm: a number of at least 0; with infinity the norm is only measured.
        norm_type: 2 for the Euclidean norm, infinity for the largest absolute value.

    Returns:
        A Python float, 0.0 if there is no gradient. On a GPU this is the one place where the host waits.

    Raises:
        ValueError: for a negative ``max_norm`` or another ``norm_type``.
        TypeError: for a module in place of its parameters.

    Source: R. Pascanu, T. Mikolov and Y. Bengio, "On the difficulty of training recurrent neural networks" (2013),
    algorithm 1, with PyTorch's factor max_norm / (norm + 1e-6).

    >>> import tinyattn as ta
    >>> p = ta.tensor([1.0, 1.0], requires_grad=True)
    >>> (p * ta.tensor([3.0, 4.0])).sum().backward()
    >>> clip_grad_norm([p], 1.0)
    5.0
    >>> p.grad
    Tensor([0.5999..., 0.7999...])
    """
    max_norm = float(max_norm)
    if not max_norm >= 0:
        raise ValueError(f"max_norm must be a number of at least 0, got {max_norm}")
    if hasattr(parameters, "named_parameters"):
        raise TypeError(
            f"expected a list of tensors, got a {type(parameters).__name__}: write model.parameters()"
        )
    members = [parameters] if isinstance(parameters, Tensor) else listed(parameters, "parameters")
    members = list({id(parameter): parameter for parameter in members}.values())
    with_gradient = [parameter for parameter in members if parameter.grad is not None]
    arrays = [parameter.grad._data for parameter in with_gradient]
    norm = float(clip_arrays(arrays, max_norm, norm_type))
    if math.isfinite(norm) and max_norm / (norm + 1e-6) < 1:
        for parameter in with_gradient:
            parameter.grad.bump_version()
    return norm


def clip_arrays(arrays, max_norm, norm_type=2.0):
    """As ``clip_grad_norm``, for arrays of one device: the norm is a number, or on a GPU an array that holds it.

    >>> import numpy as np
    >>> arrays = [np.array([3.0]), np.array([[4.0]])]
    >>> clip_arrays(arrays, 2.5), arrays[0].round(3)
    (5.0, array([1.5]))
    """
    arrays = [array for array in arrays if array.size]
    fast = find_update("clip", arrays[0]) if arrays and norm_type == 2 else None
    # The fast version sums squares in float64, from whose range only those of float64 can be outside.
    if fast and all(array.flags.c_contiguous and array.dtype != "d" for array in arrays):
        return fast(arrays, max_norm)
    norm = gradient_norm(arrays, norm_type)
    factor = max_norm / (norm + 1e-6)
    if math.isfinite(norm) and factor < 1:
        for array in arrays:
            array *= factor
    return norm


def gradient_norm(arrays, norm_type=2.0):
    """The norm of all ``arrays`` as one vector, a Python float; they share a device.

    >>> import numpy as np
    >>> gradient_norm([np.array([3.0]), np.array([[4.0]])])
    5.0
    """
    if norm_type not in (2, math.inf):
        raise ValueError(f"norm_type must be 2 or infinity, got {norm_type}")
    arrays = [array for array in arrays if array.size]
    if not arrays:
        return 0.0
    xp = array_namespace(*arrays)
    if norm_type == math.inf:
        return float(xp.max(xp.stack([xp.max(xp.abs(array)) for array in arrays])))
    vectors = [array.reshape(-1) for array in arrays]
    vectors = [v.astype(np.float32) if v.dtype.itemsize < 4 else v for v in vectors]
    total = _sum_of_squares(xp, vectors)
    tiny = max(float(np.finfo(vector.dtype).tiny) for vector in vectors)
    if math.sqrt(tiny) <= total < math.inf:
        return math.sqrt(total)
    # Squares have left the number format. Those of the gradients over the largest do not.
    largest = gradient_norm(arrays, math.inf)
    if largest == 0 or not math.isfinite(largest):
        return largest
    return largest * math.sqrt(_sum_of_squares(xp, [v / largest for v in vectors]))


def _sum_of_squares(xp, vectors):
    """The sum of all squares, a Python float."""
    with np.errstate(over="ignore"):
        squares = [xp.dot(vector, vector) for vector in vectors]
    if xp is np:
        return math.fsum(squares)
    # Summed on the device, so that the host waits once.
    return float(xp.sum(xp.stack(squares).astype(np.float64)))
