"""Temporarily replace a function's code, for mutation testing.

Only the code object of the function is replaced. Every reference to the function, in a table of vector-Jacobian
products or in another module, runs the new code inside the block.
"""

import ast
import contextlib
import functools
import inspect
import textwrap


@functools.cache
def source_of(function):
    """The source of a function from its ``def`` on, without decorators and indentation."""
    source = textwrap.dedent(inspect.getsource(function))
    definition = ast.parse(source).body[0]
    return "\n".join(source.splitlines()[definition.lineno - 1 :])


def code_from(function, source):
    """The code object of ``source``, a ``def``, compiled with the globals of ``function``.

    Args:
        source: text, or a syntax tree that consists of the one function.

    Raises:
        ValueError: if ``function`` is a closure, which cannot be compiled on its own.
    """
    if function.__code__.co_freevars:
        raise ValueError(
            f"{function.__name__} is a closure: it uses variables of the function around it"
        )
    tree = source if isinstance(source, ast.Module) else ast.parse(source)
    tree.body[0].decorator_list = []
    namespace = dict(function.__globals__)
    exec(compile(tree, f"<changed {function.__name__}>", "exec"), namespace)
    return namespace[tree.body[0].name].__code__


@contextlib.contextmanager
def running(function, code):
    """Make ``function`` run ``code`` inside the block.

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
