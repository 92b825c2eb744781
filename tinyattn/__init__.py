"""tinyattn: attention whose every backward pass can be read, checked, watched, and trained fast.

The package imports NumPy and nothing else. ``import tinyattn as ta``; array functions follow NumPy's names
and arguments, networks and optimisers PyTorch's.
"""

from .startup import leave_quietly as _leave_quietly

_leave_quietly()  # before NumPy is imported

# ruff: noqa: E402
from . import kernels, models, nn, optim, study
from .attention import attention_kinds, scaled_dot_product_attention
from .autograd import (
    Tensor,
    detect_anomaly,
    enable_grad,
    first_order,
    grad,
    hvp,
    is_grad_enabled,
    no_grad,
    primitive,
    reference,
    set_grad_enabled,
    tensor,
)
from .backend import array_namespace, device, manual_seed
from .checker import GradcheckError, gradcheck
from .ops import *  # noqa: F403  (the names in ops.__all__, each documented where it is defined)

__version__ = "0.1.0"
