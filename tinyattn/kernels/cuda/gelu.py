"""GELU in both its forms: one launch forward, one backward.

Trade-offs: only x is kept, and backward computes tanh or erf a second time: on a GPU arithmetic is cheaper than the
memory that the derivative would take.
"""

from ...autograd import register_kernel
from .elementwise import LARGEST, map_elements
from .rows import contiguous, is_floating


def forward(x, *, approximate="none"):
    if approximate not in ("none", "tanh") or not is_floating(x) or not 0 < x.size <= LARGEST:
        return NotImplemented
    x = contiguous(x)
    template = (approximate == "tanh",)
    return map_elements("activations.cu", "gelu_forward", template, [x]), (x, template)


def backward(g, residuals):
    x, template = residuals
    return map_elements("activations.cu", "gelu_backward", template, [g, x])


register_kernel("gelu", "cuda", forward, backward)
