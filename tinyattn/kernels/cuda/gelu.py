"""GELU, exact and approximated by tanh: see ``activations.py``, also for the trade-offs."""

from ...autograd import register_kernel
from .activations import activate, activate_backward
from .elementwise import LARGEST
from .rows import contiguous, is_floating

_KINDS = {"none": "gelu", "tanh": "gelu_tanh"}


def forward(x, *, approximate="none"):
    if approximate not in _KINDS or not is_floating(x) or not 0 < x.size <= LARGEST:
        return NotImplemented
    x = contiguous(x)
    kind = _KINDS[approximate]
    return activate(x, kind), (x, kind)


def backward(g, residuals):
    return activate_backward(g, *residuals)


register_kernel("gelu", "cuda", forward, backward)
