"""The options of each command beside those of a training run (train/config.py), each documented once."""

import contextlib
import json
from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from ..attention import attention_kind, attention_kinds
from ..data import InputError
from ..data.paths import PathText
from ..ranges import Count, FileCount, Megabytes, NotNegative, Seed, Share
from ..train.config import ModelOptions, RunOptions

# Text and rows of numbers may begin with a minus sign: "-1 2 3" is no option.
AnyText = Annotated[str, Parameter(allow_leading_hyphen=True)]
AnyTextOrNone = Annotated[str | None, Parameter(allow_leading_hyphen=True)]


@dataclass(frozen=True)
class TextAndRunOptions(RunOptions):
    """``RunOptions`` as the command line takes them: ``--data`` has several words."""

    data: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())] = (
        RunOptions.data,
    )


def model_options():
    """``ModelOptions`` for the command line, which offers the attention kinds registered at the time of the call."""
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
    """The words ``NAME=VALUE`` as a dict; a value that is a number in JSON is taken as one."""
    values = {}
    for token in tokens:
        name, equals, value = token.value.partition("=")
        if not equals:
            raise InputError(f"expected NAME=VALUE, given {token.value!r}")
        values[name] = value
        with contextlib.suppress(ValueError):
            values[name] = json.loads(value)
    return values


@dataclass(frozen=True)
class SourceOptions:
    """Where options come from that are not given on the command line."""

    config: PathText | None = None
    """JSON file with options, such as a run's config.json; options given here override it [path]."""

    resume: PathText | None = None
    """Run to go on with, by its own options [directory]."""


@dataclass(frozen=True)
class SampleOptions:
    """How text is sampled."""

    prompt: AnyText = ""
    """Text to continue; nothing: a line break where the vocabulary has one."""

    length: Count = 500
    """How much to write [characters]."""

    temperature: NotNegative = 0.8
    """0 always takes the likeliest character, 1 samples what the model believes [no unit]."""

    top_k: Count | None = None
    """Sample from the likeliest K characters only [characters]."""

    top_p: Share | None = None
    """Sample from the likeliest characters that together reach this probability [0 to 1]."""

    seed: Seed | None = None
    """Start of the random stream; another text each time by default."""

    unknown: Literal["error", "skip"] = "error"
    """What to do with a character of the prompt that the model does not know."""

    state: Literal["best", "last"] | None = None
    """Which of the run's two states to take; best by default, or last before the first evaluation."""

    slide: Count = 1
    """How far the context moves once the text has outgrown it; more is faster [characters]."""

    device: str | None = None
    """Device: cpu, cuda, cuda:N or strict; TINYATTN_DEVICE or cpu by default."""


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


@dataclass(frozen=True)
class BenchOptions:
    """How much is measured, and where to."""

    quick: bool = False
    """Measure less and smaller, to see that everything works."""

    one_core: bool = False
    """Keep everything to one core and take the processor's time: for a machine that is busy."""

    json: PathText | None = None
    """File for the results; NAME.json in benchmarks/results by default [path]."""


@dataclass(frozen=True)
class GradcheckOptions:
    """What is checked, and how."""

    op: str | None = None
    """Check one operation or block [name]."""

    device: str | None = None
    """Device: cpu, cuda, cuda:N or strict; TINYATTN_DEVICE or cpu by default."""

    html: PathText | None = None
    """Write a page with the step-size curve of each operation [path]."""

    broken: Annotated[str | None, Parameter(name="--break")] = None
    """Apply known mutations to an operation's rule, such as softmax, and show which checks catch them."""

    order: Literal[1, 2] | None = None
    """2: the gradients of the gradients as well; 2 by default, 1 for a run's model."""

    seed: Seed = 0
    """Start of the random streams of inputs, cotangents and directions."""
