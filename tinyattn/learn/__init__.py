"""The course: exercises in writing backward passes, and a judge that says which mistake it is.

``tinyattn learn`` in a terminal; ``ta.learn.check("softmax", my_vjp)`` in a notebook.
"""

from .judge import check
from .verdict import Result

__all__ = ["Result", "check"]
