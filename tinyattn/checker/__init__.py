"""The gradient checker: compares gradients with finite differences of the function.

``gradcheck`` (public as ``tinyattn.gradcheck``) returns True or raises; ``gradient_report`` returns all numbers. The
package imports NumPy, the engine and its backends, and works without the rest of the library.
"""

from .check import gradcheck, gradient_report
from .problem import Argument, Problem
from .report import GradcheckError, GradcheckInconclusive, GradcheckWarning, Report

__all__ = [
    "Argument",
    "GradcheckError",
    "GradcheckInconclusive",
    "GradcheckWarning",
    "Problem",
    "Report",
    "gradcheck",
    "gradient_report",
]
