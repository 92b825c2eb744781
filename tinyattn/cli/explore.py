"""``tinyattn explore``: the page that shows attention in a run's model, from the command line."""

import sys
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..data import InputError
from ..data.paths import PathText, expand_path
from ..ranges import FileCount, Megabytes
from ..study import explorer
from ..train.config import as_annotated
from .options import AnyTextOrNone, RunArgument, options


@dataclass(frozen=True)
class ExploreOptions:
    """What the page shows."""

    text: AnyTextOrNone = None
    """Text to look at; the beginning of the run's validation part by default."""

    cut: bool = False
    """Cut a text that is longer than the model's block to its beginning."""

    output: Annotated[PathText, Parameter(alias="-o")] = "explorer.html"
    """Page to write [path]."""

    positions: AnyTextOrNone = None
    """Characters whose own loss is looked at: all, or positions apart by commas; the largest by default."""

    snapshots: FileCount | None = None
    """How many of the run's snapshots to show; as many as fit by default [snapshots]."""

    megabytes: Megabytes = 4.0
    """Size the page should keep to [MB]."""

    open: bool = False
    """Open the page in the browser."""


def add_to(app):
    app.command(explore)


def explore(
    run: RunArgument,
    /,
    *,
    what: Annotated[ExploreOptions, options()] = ExploreOptions(),
):
    """Write a page, one file for any browser, that shows attention forward and backward on a text."""
    path, what = expand_path(run, "the run"), as_annotated(what)
    if Path(what.output).is_dir():
        raise InputError(f"--output {what.output} is a directory: give the name of a file")
    try:
        status = explorer.run(
            path, what.text, what.output, what.positions, what.snapshots, what.megabytes, what.cut
        )
    except (ValueError, FileNotFoundError) as error:
        raise InputError(str(error)) from error
    if what.open and not webbrowser.open(Path(what.output).resolve().as_uri()):
        print(f"no browser was found: open {what.output} in one", file=sys.stderr)
    return status
