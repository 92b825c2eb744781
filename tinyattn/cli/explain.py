"""``tinyattn explain``: the walk through an operation, from the command line."""

import sys
from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from ..data import InputError
from ..study import explanation
from .options import AnyTextOrNone, options
from .terminal import is_terminal


@dataclass(frozen=True)
class ExplainOptions:
    """The numbers that are walked through."""

    x: AnyTextOrNone = None
    """Input, numbers apart by spaces, rows by semicolons; a small example by default."""

    cotangent: AnyTextOrNone = None
    """Gradient of the output, written alike; 1 for the first element by default."""

    y: AnyTextOrNone = None
    """Second matrix of matmul, written alike."""

    target: AnyTextOrNone = None
    """Class that cross_entropy expects, a place in --x; 0 by default [id]."""


def add_to(app):
    app.command(explain)


def explain(
    operation: Annotated[
        Literal["softmax", "layer_norm", "matmul", "cross_entropy", "gelu", "attention"],
        Parameter(help="Operation to walk through."),
    ],
    /,
    *,
    numbers: Annotated[ExplainOptions, options()] = ExplainOptions(),
):
    """Walk through an operation forward and backward, line by line, with numbers."""
    try:
        walk = explanation.explain(
            operation, numbers.x, numbers.cotangent, y=numbers.y, target=numbers.target
        )
    except ValueError as error:
        raise InputError(str(error)) from error
    if is_terminal(sys.stdout):
        from .console import make_console

        make_console(sys.stdout).print(walk)
    else:
        print(walk)
    return 0 if walk.passed else 1
