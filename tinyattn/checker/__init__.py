"""The gradient checker: gradients against finite differences of the function itself.

It needs NumPy and the engine, and could be used without the rest of the library. ``tinyattn.gradcheck`` is the public
name of its function.
"""

from .check import examine, gradcheck
from .report import GradcheckError, GradcheckWarning, Report

__all__ = ["GradcheckError", "GradcheckWarning", "Report", "examine", "gradcheck"]
