"""Automatic differentiation: tensors that record operations, primitives with hand-written backward, and backward."""

from .backward import gradient_map
from .functional import grad, hvp
from .modes import (
    detect_anomaly,
    enable_grad,
    first_order,
    is_grad_enabled,
    no_grad,
    reference,
    set_grad_enabled,
)
from .primitive import PRIMITIVES, Primitive, primitive, register_kernel
from .tensor import Tensor, tensor

__all__ = [
    "PRIMITIVES",
    "Primitive",
    "Tensor",
    "detect_anomaly",
    "enable_grad",
    "first_order",
    "grad",
    "gradient_map",
    "hvp",
    "is_grad_enabled",
    "no_grad",
    "primitive",
    "reference",
    "register_kernel",
    "set_grad_enabled",
    "tensor",
]
