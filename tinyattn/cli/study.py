"""``tinyattn explain`` and ``tinyattn explore``: what tinyattn.study shows, from the command line."""

import sys
import webbrowser
from pathlib import Path

from ..data import InputError
from .terminal import is_terminal


def explain(operation, numbers):
    """Print the walk through an operation, in colour on a terminal; returns the exit status, 1 if a check failed.

    Args:
        operation: its name.
        numbers: ``ExplainOptions``.
    """
    from ..study.explanation import explain

    try:
        walk = explain(operation, numbers.x, numbers.cotangent, y=numbers.y, target=numbers.target)
    except ValueError as error:
        raise InputError(str(error)) from error
    if is_terminal(sys.stdout):
        from .console import make_console

        make_console(sys.stdout).print(walk)
    else:
        print(walk)
    return 0 if walk.passed else 1


def explore(path, what):
    """Write the page of a run; returns the exit status.

    Args:
        path: the run's directory.
        what: ``ExploreOptions``.
    """
    from ..study.explorer import run

    if Path(what.output).is_dir():
        raise InputError(f"--output {what.output} is a directory: give the name of a file")
    try:
        status = run(
            path, what.text, what.output, what.positions, what.snapshots, what.megabytes, what.cut
        )
    except (ValueError, FileNotFoundError) as error:
        raise InputError(str(error)) from error
    if what.open and not webbrowser.open(Path(what.output).resolve().as_uri()):
        print(f"no browser was found: open {what.output} in one", file=sys.stderr)
    return status
