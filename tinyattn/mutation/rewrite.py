"""Running a function with another text: how mistakes are planted, and taken out again.

The code object of the function is exchanged, and nothing else: whoever holds the function, a table of vector-Jacobian
products or another module, runs the other text for as long as the block lasts.
"""

import ast
import contextlib
import inspect
import textwrap


def source_of(function):
    """The text of a function from its ``def`` on, without decorators and indentation."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    definition = tree.body[0]
    definition.decorator_list = []
    lines = textwrap.dedent(inspect.getsource(function)).splitlines()
    return "\n".join(lines[definition.lineno - 1 :])


def code_from(function, source):
    """The code object of ``source``, a ``def``, compiled as if it stood in the place of ``function``.

    Raises:
        ValueError: for a function with variables of an enclosing one, which cannot be compiled by itself.
    """
    if function.__code__.co_freevars:
        raise ValueError(f"{function.__name__} uses variables of the function around it")
    tree = source if isinstance(source, ast.Module) else ast.parse(source)
    tree.body[0].decorator_list = []
    namespace = dict(function.__globals__)
    exec(compile(tree, f"<changed {function.__name__}>", "exec"), namespace)
    return namespace[tree.body[0].name].__code__


@contextlib.contextmanager
def running(function, code):
    """Let ``function`` run ``code`` inside the block.

    >>> def double(x):
    ...     return 2 * x
    >>> with running(double, (lambda x: 3 * x).__code__):
    ...     double(1)
    3
    >>> double(1)
    2
    """
    own = function.__code__
    function.__code__ = code
    try:
        yield
    finally:
        function.__code__ = own
