"""tinyattn: an autograd engine and a small GPT on NumPy, with backward passes that can be read and checked.

By convention, ``import tinyattn as ta``. Array functions have NumPy's names and arguments, layers and optimizers
PyTorch's. The import needs NumPy only; the packages above the operations are imported on first use.
"""

import importlib

from .startup import exit_on_interrupt as _exit_on_interrupt

_exit_on_interrupt()  # before NumPy is imported

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

_MODULES = ("data", "learn", "models", "nn", "optim", "study", "train")
# Modules of the names that are imported on first use.
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
