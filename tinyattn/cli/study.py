"""``tinyattn explain`` and ``tinyattn explore``: what tinyattn.study shows, from the command line."""

from pathlib import Path

from ..data import InputError
from ..train.ranges import check_ranges


def explain(operation, numbers):
    """Print the walk through an operation; returns the exit status.

    Args:
        operation: its name.
        numbers: ``ExplainOptions``.
    """
    from ..study.explanation import run

    try:
        return run(operation, numbers.x, numbers.cotangent, numbers.y, numbers.target)
    except ValueError as error:
        raise InputError(str(error)) from error


def explore(path, what):
    """Write the page of a run; returns the exit status.

    Args:
        path: the run's directory.
        what: ``ExploreOptions``.
    """
    from ..study.explorer import run

    check_ranges(what)
    if Path(what.output).is_dir():
        raise InputError(f"--output {what.output} is a directory: give the name of a file")
    try:
        return run(path, what.text, what.output, what.positions, what.snapshots, what.megabytes)
    except (ValueError, FileNotFoundError) as error:
        raise InputError(str(error)) from error
