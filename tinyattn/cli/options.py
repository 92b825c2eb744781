"""Options shared by the commands, and the options of attention kinds."""

import contextlib
import json
from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from ..attention import attention_kind, attention_kinds
from ..data import InputError
from ..train.config import ModelOptions, RunOptions

HEADINGS = ("Run", "Defaults and resumption", "Model", "Optimizer", "Options")

RunArgument = Annotated[str, Parameter(help="Directory of a run.")]
ModelArgument = Annotated[
    str, Parameter("model", help="Directory of a run, or folder of a GPT-2 with its tokenizer.")
]

# Text and numbers may start with a hyphen: "-1 2 3" is not an option.
AnyText = Annotated[str, Parameter(allow_leading_hyphen=True)]
AnyTextOrNone = Annotated[str | None, Parameter(allow_leading_hyphen=True)]


@dataclass(frozen=True)
class TextAndRunOptions(RunOptions):
    """``RunOptions`` for the command line, where ``--data`` takes several arguments."""

    data: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())] = (
        RunOptions.data,
    )


def options(heading="Options"):
    """Turn the fields of a dataclass into options of the same names, under a heading of the help text."""
    return Parameter(name="*", group=Group(heading, sort_key=HEADINGS.index(heading)))


def model_options():
    """``ModelOptions`` for the command line, with the attention kinds registered at the time of the call."""
    settings = [
        f"{kind}: {name}={option.default}. {option.help}"
        for kind in attention_kinds()
        for name, option in attention_kind(kind).options.items()
        if option.is_setting and not hasattr(ModelOptions, name)
    ]
    words = " ".join(["Option of the attention kind, NAME=VALUE; may be repeated.", *settings])
    named_value = Parameter("--attention-option", converter=_named_values, negative=(), help=words)

    @dataclass(frozen=True, kw_only=True)
    class Options(ModelOptions):
        attention: Literal[attention_kinds()] = ModelOptions.attention
        attention_options: Annotated[list[str] | None, named_value] = None

    return Options


def _named_values(_type, tokens):
    """Parse arguments ``NAME=VALUE`` into a dict; values that are valid JSON are decoded."""
    values = {}
    for token in tokens:
        name, equals, value = token.value.partition("=")
        if not equals:
            raise InputError(f"expected NAME=VALUE, given {token.value!r}")
        values[name] = value
        with contextlib.suppress(ValueError):
            values[name] = json.loads(value)
    return values
