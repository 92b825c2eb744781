"""Temporarily switch a module to eval mode."""

import contextlib

from .module import Module


@contextlib.contextmanager
def evaluating(model):
    """Switch to eval mode inside a ``with`` block and restore the mode of every module, also after an exception.

    Args:
        model: a module, or the list ``model.modules()``, which saves traversing the module for each call.

    >>> from tinyattn import nn
    >>> model = nn.Dropout(0.5)
    >>> with evaluating(model):
    ...     model.training
    False
    >>> model.training
    True
    """
    modules = model.modules() if isinstance(model, Module) else model
    modes = [module.training for module in modules]
    try:
        _set_modes(modules, [False] * len(modules))
        yield model
    finally:
        _set_modes(modules, modes)


def _set_modes(modules, modes):
    for module, mode in zip(modules, modes):
        if module.training is not mode:
            module.training = mode
