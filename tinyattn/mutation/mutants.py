"""All mutants of one function."""

import ast
import inspect
import textwrap

from .operators import changes
from .rewrite import code_from


def mutants(function):
    """``(Change, code object)`` for each change of a function; ``rewrite.running`` runs the code object.

    >>> from tinyattn.ops.trigonometric import sin_vjp
    >>> [change.after for change, code in mutants(sin_vjp)][1:3]
    ['return g / array_namespace(x).cos(x)', 'return g']
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    tree.body[0].decorator_list = []
    ast.increment_lineno(tree, function.__code__.co_firstlineno - 1)
    for change in changes(tree):
        yield change, code_from(function, change.tree)
