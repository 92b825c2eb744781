"""Optimizers, gradient clipping and learning-rate schedules, named as in PyTorch."""

from ..autograd import pytorch_names
from . import schedules
from .adamw import AdamW
from .clipping import clip_grad_norm
from .groups import weight_decay_groups
from .muon import Muon
from .optimizer import Optimizer
from .sgd import SGD

__all__ = [
    "SGD",
    "AdamW",
    "Muon",
    "Optimizer",
    "clip_grad_norm",
    "schedules",
    "weight_decay_groups",
]


def __getattr__(name):
    raise pytorch_names.missing(f"module {__name__!r}", name, pytorch_names.OF_OPTIMIZERS)
