"""tinyattn: attention whose every backward pass can be read, checked, watched, and trained fast.

The package imports NumPy and nothing else. ``import tinyattn as ta``; array functions follow NumPy's names
and arguments, networks and optimisers PyTorch's. The parts above the operations are imported when they are first used.
"""

import importlib

from .startup import leave_quietly as _leave_quietly

_leave_quietly()  # before NumPy is imported

# ruff: noqa: E402
from . import kernels
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
    pytorch_names,
    reference,
    set_grad_enabled,
    tensor,
)
from .backend import array_namespace, device, manual_seed
from .ops import *  # noqa: F403  (the names in ops.__all__, each documented where it is defined)

__version__ = "0.1.0"

_MODULES = ("data", "models", "nn", "optim", "study", "train")
# Where the names come from that are imported at their first use.
_PLACES = {
    "GradcheckError": "checker",
    "GradcheckInconclusive": "checker",
    "generate": "sampling",
    "gradcheck": "checker",
    "load": "train.storage.tensors",
    "save": "train.storage.tensors",
}


def __getattr__(name):
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _PLACES:
        value = getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
        globals()[name] = value
        return value
    raise pytorch_names.missing(f"module {__name__!r}", name, pytorch_names.OF_PACKAGE)


def __dir__():
    names = {*globals(), *_MODULES, *_PLACES} - {"importlib", "pytorch_names"}
    return sorted(name for name in names if not name.startswith("_"))


__all__ = __dir__()
