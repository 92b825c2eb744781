"""Checking gradients against differences of the function itself, in a way that cannot be fooled."""

import sys
import types

from .check import examine, gradcheck
from .report import GradcheckError, GradcheckWarning, Report

__all__ = ["GradcheckError", "GradcheckWarning", "Report", "examine", "gradcheck"]


class _CallablePackage(types.ModuleType):
    """``tinyattn.gradcheck`` is the function and this package: whichever a reader meets can be called."""

    def __call__(self, *args, **kwargs):
        return gradcheck(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
