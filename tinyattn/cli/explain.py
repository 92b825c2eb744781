"""``tinyattn explain``: explain the forward and backward pass of an operation with numbers."""

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
    """Inputs of the operation."""

    x: AnyTextOrNone = None
    """Input: numbers separated by spaces, rows by semicolons; a small example by default."""

    cotangent: AnyTextOrNone = None
    """Gradient of the output, in the same format; by default 1 for the first element and 0 for the others."""

    y: AnyTextOrNone = None
    """Second matrix of matmul, in the same format."""

    target: AnyTextOrNone = None
    """Target class of cross_entropy, an index into --x; 0 by default [id]."""


def add_to(app):
    app.command(explain)


def explain(
    operation: Annotated[
        Literal["softmax", "layer_norm", "matmul", "cross_entropy", "gelu", "attention"],
        Parameter(help="Operation to explain."),
    ],
    /,
    *,
    numbers: Annotated[ExplainOptions, options()] = ExplainOptions(),
):
    """Explain the forward and backward pass of an operation step by step, with numbers."""
    try:
        explained = explanation.explain(
            operation, numbers.x, numbers.cotangent, y=numbers.y, target=numbers.target
        )
    except ValueError as error:
        raise InputError(str(error)) from error
    if is_terminal(sys.stdout):
        from .console import make_console

        make_console(sys.stdout).print(explained)
    else:
        print(explained)
    return 0 if explained.passed else 1
