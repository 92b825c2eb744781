"""The course: exercises in writing backward passes, with a diagnosis of mistakes.

``tinyattn learn`` in a terminal; ``ta.learn.check("softmax", my_vjp)`` in a notebook.
"""

from .judge import check
from .verdict import Result

__all__ = ["Result", "check"]
