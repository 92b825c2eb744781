"""``tinyattn learn``: exercises in writing backward passes."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from ..learn import course
from ..learn.process import SECONDS
from ..ranges import Positive
from ..train.config import as_annotated
from .options import options

POLL = 0.3  # s between two checks of a file's modification time

FileArgument = Annotated[str, Parameter(help="File of an exercise, or its name.")]
NameArgument = Annotated[str, Parameter(help="Exercise.")]


@dataclass(frozen=True)
class CheckOptions:
    """Options of ``tinyattn learn check``."""

    watch: Annotated[bool, Parameter(negative=())] = False
    """Check again at each save, until Ctrl-C."""

    hint: Annotated[bool, Parameter(negative=())] = False
    """Show the next of three hints, each a question, and do not check."""

    solution: Annotated[bool, Parameter(negative=())] = False
    """Show our rule and its derivation next to your code; recorded in progress.json."""

    exercise: str | None = None
    """Exercise, for a file that is not named after it."""

    seconds: Positive = SECONDS
    """Time limit of your code [s]."""


@dataclass(frozen=True)
class SeeOptions:
    """Options of ``tinyattn learn see``."""

    output: Annotated[str | None, Parameter(alias="-o")] = None
    """HTML page to write, for softmax only; by default softmax.html in the directory of the file [path]."""

    exercise: str | None = None
    """Exercise, for a file that is not named after it."""

    seconds: Positive = SECONDS
    """Time limit of your code [s]."""


def add_to(app):
    learn = App(
        name="learn",
        help="Learn to write backward passes: twelve exercises with diagnosis of mistakes.\n\n"
        "Without a command: list the exercises, those that are solved, and the next one. "
        + course.RIGHTS,
    )
    learn.default(overview)
    for command in (start, check, see, reset):
        learn.command(command)
    app.command(learn)


def overview():
    """List the exercises, those that are solved, and the next one."""
    print(course.overview())
    return 0


def start(name: NameArgument, /):
    """Write the file of an exercise into this directory; existing files are never overwritten."""
    print(course.start(name))
    return 0


def check(file: FileArgument, /, *, how: Annotated[CheckOptions, options()] = CheckOptions()):
    """Check an answer and diagnose the mistake; the exit status is 1 if it is wrong.

    The file is code that runs with your permissions, in a separate process with a time limit.
    """
    how = as_annotated(how)
    if how.hint or how.solution:
        show = course.hint if how.hint else course.solution
        print(show(file, how.exercise))
        return 0
    if how.watch:
        return _watch(file, how)
    return _check(file, how)


def _check(file, how):
    text, passed = course.check(file, how.exercise, how.seconds)
    print(text, flush=True)
    return 0 if passed else 1


def _watch(file, how):
    path, _ = course.locate(file, how.exercise)
    seen = status = None
    try:
        while True:
            now = _changed_at(path)
            if now is not None and now != seen:
                if seen is not None:
                    print(f"\n{'-' * 40} saved again, {time.strftime('%H:%M:%S')}\n")
                seen, status = now, _check(file, how)
                print("\nwaiting for the next save; Ctrl-C ends it", flush=True)
            time.sleep(POLL)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return status or 0


def _changed_at(path):
    """Modification time and size of a file; None while an editor replaces it."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def see(file: FileArgument, /, *, where: Annotated[SeeOptions, options()] = SeeOptions()):
    """Show your gradient next to the correct one: line by line, and for softmax also as bars in an HTML page."""
    from ..learn.see import see

    where = as_annotated(where)
    text, passed = see(file, where.exercise, where.output, where.seconds)
    print(text)
    return 0 if passed else 1


def reset(name: NameArgument, /):
    """Restart an exercise; the current file is kept under another name."""
    print(course.reset(name))
    return 0
