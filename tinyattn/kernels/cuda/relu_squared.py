"""Squared ReLU: see ``activations.py``, also for the trade-offs."""

from ...autograd import register_kernel
from .activations import activate, activate_backward
from .elementwise import LARGEST
from .rows import contiguous, is_floating


def forward(x):
    if not is_floating(x) or not 0 < x.size <= LARGEST:
        return NotImplemented
    x = contiguous(x)
    return activate(x, "relu_squared"), x


def backward(g, x):
    return activate_backward(g, x, "relu_squared")


register_kernel("relu_squared", "cuda", forward, backward)
