"""``tinyattn explore``: write the explorer page of a model."""

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
from .options import AnyTextOrNone, ModelArgument, options


@dataclass(frozen=True)
class ExploreOptions:
    """Contents of the page."""

    text: AnyTextOrNone = None
    """Text to run the model on; by default the beginning of the validation split of a run."""

    cut: bool = False
    """Truncate a text that is longer than the model's block size."""

    output: Annotated[PathText, Parameter(alias="-o")] = "explorer.html"
    """Output file [path]."""

    positions: AnyTextOrNone = None
    """Positions to include the gradients of a single token's loss for: all, or numbers separated by commas; by
    default those with the largest loss."""

    snapshots: FileCount | None = None
    """Number of the run's snapshots to include; as many as fit by default [snapshots]."""

    megabytes: Megabytes = 4.0
    """Size limit of the page [MB]."""

    open: bool = False
    """Open the page in a web browser."""


def add_to(app):
    app.command(explore)


def explore(
    model: ModelArgument,
    /,
    *,
    what: Annotated[ExploreOptions, options()] = ExploreOptions(),
):
    """Write an HTML page that shows the attention of a model on a text, forward and backward."""
    path, what = expand_path(model, "the model"), as_annotated(what)
    if Path(what.output).is_dir():
        raise InputError(f"--output {what.output} is a directory: give a file name")
    try:
        status = explorer.run(
            path, what.text, what.output, what.positions, what.snapshots, what.megabytes, what.cut
        )
    except (ValueError, FileNotFoundError) as error:
        raise InputError(str(error)) from error
    if what.open and not webbrowser.open(Path(what.output).resolve().as_uri()):
        print(f"no web browser found: open {what.output} in one", file=sys.stderr)
    return status
