"""Checking gradients against differences of the function itself, in a way that cannot be fooled."""

from .check import examine, gradcheck
from .report import GradcheckError, GradcheckWarning, Report

__all__ = ["GradcheckError", "GradcheckWarning", "Report", "examine", "gradcheck"]
