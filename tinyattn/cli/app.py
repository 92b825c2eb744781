"""The commands; a command's work is imported when it is called for."""

import dataclasses
import importlib
import re
import sys
import typing
from typing import Annotated, Literal

from cyclopts import App, Group, Parameter
from cyclopts.exceptions import UnknownOptionError, UnusedCliTokensError

from .. import __version__, startup
from ..data import InputError
from ..data.paths import expand_path
from ..error_messages import nearest, shortened, shown
from ..models.config import OTHER_NAMES
from ..train.config import (
    OptimizerOptions,
    as_annotated,
    describe_presets,
    flatten_groups,
    option,
)
from .options import (
    BenchOptions,
    ExplainOptions,
    ExploreOptions,
    GradcheckOptions,
    SampleOptions,
    SourceOptions,
    TextAndRunOptions,
    model_options,
)

# What other programs call an option of ours that is spelt quite differently.
KNOWN_ELSEWHERE = {
    **OTHER_NAMES,
    "batch": "batch_size",
    "context": "block_size",
    "epochs": "steps",
    "eval_interval": "evaluate_every",
    "input": "data",
    "iterations": "steps",
    "max_iters": "steps",
    "max_new_tokens": "length",
    "num_workers": "workers",
    "output": "out",
    "start": "prompt",
}

HEADINGS = ("Run", "Source of options", "Model", "Optimiser", "Options")


def options(heading="Options"):
    """Make the fields of a dataclass options by their own names, under a heading of the help."""
    return Parameter(name="*", group=Group(heading, sort_key=HEADINGS.index(heading)))


RunArgument = Annotated[str, Parameter(help="Directory of a run.")]


class _App(App):
    @property
    def console(self):
        """Where help is printed; rich is imported when it is."""
        from .console import make_console

        return make_console(sys.stdout)


def _work(name):
    """The module of a command, imported now that it is called for; from here on Ctrl-C interrupts its work."""
    module = importlib.import_module(f".{name}", __package__)
    startup.be_interruptible()
    return module


def _run_path(path):
    return expand_path(path, "the run")


def make_app():
    """The command line, new for each call of ``main``."""
    app = _App(
        name="tinyattn",
        help="Attention and a small GPT whose every backward pass can be read, checked, watched.",
        version=__version__,
        suppress_keyboard_interrupt=False,  # main tells it
    )
    ModelOptions = model_options()
    given = set()
    app.config = _remember_given(given)

    @app.command(help_epilogue=f"Presets\n\n{describe_presets()}")
    def train(
        *,
        run: Annotated[TextAndRunOptions, options("Run")] = TextAndRunOptions(),  # noqa: B008
        source: Annotated[SourceOptions, options("Source of options")] = SourceOptions(),  # noqa: B008
        model: Annotated[ModelOptions, options("Model")] = ModelOptions(),  # noqa: B008
        optimizer: Annotated[OptimizerOptions, options("Optimiser")] = OptimizerOptions(),  # noqa: B008
    ):
        """Train a small model on text, a character at a time; the defaults take about a minute.

        An option given here wins over the file given with --config, and that over the preset.
        """
        values = flatten_groups(run, model, optimizer)
        return _work("train").run(
            {name: values[name] for name in given & values.keys()}, as_annotated(source)
        )

    @app.command
    def sample(
        run: RunArgument,
        /,
        *,
        how: Annotated[SampleOptions, options()] = SampleOptions(),  # noqa: B008
    ):
        """Let a trained model write; each character is printed as it is made."""
        return _work("sample").run(_run_path(run), as_annotated(how))

    @app.command
    def gradcheck(
        run: Annotated[
            str | None,
            Parameter(help="Directory of a run whose model is checked; the library without it."),
        ] = None,
        /,
        *,
        how: Annotated[GradcheckOptions, options()] = GradcheckOptions(),  # noqa: B008
    ):
        """Hold every gradient against differences; status 1 if one is wrong."""
        path = None if run is None else _run_path(run)
        return _work("gradcheck").run(path, **dataclasses.asdict(as_annotated(how)))

    @app.command
    def explain(
        operation: Annotated[
            Literal["softmax", "layer_norm", "matmul", "cross_entropy", "gelu", "attention"],
            Parameter(help="Operation to walk through."),
        ],
        /,
        *,
        numbers: Annotated[ExplainOptions, options()] = ExplainOptions(),  # noqa: B008
    ):
        """Walk through an operation forward and backward, line by line, with numbers."""
        return _work("study").explain(operation, numbers)

    @app.command
    def explore(
        run: RunArgument,
        /,
        *,
        what: Annotated[ExploreOptions, options()] = ExploreOptions(),  # noqa: B008
    ):
        """Write a page, one file for any browser, that shows attention forward and backward on a text."""
        return _work("study").explore(_run_path(run), as_annotated(what))

    @app.command
    def bench(
        name: Annotated[
            str | None, Parameter(help="Benchmark to run; the list of them without it.")
        ] = None,
        /,
        *,
        how: Annotated[BenchOptions, options()] = BenchOptions(),  # noqa: B008
    ):
        """Compare with PyTorch and JAX, where they are installed, and with what the machine could do."""
        how = as_annotated(how)
        return _work("bench").run(name, how.quick, how.json, how.one_core)

    return app


def _remember_given(given):
    """A cyclopts hook that notes which options were given, by the name of their field."""

    def remember(app, commands, arguments):
        for argument in arguments:
            _check_whole(argument)
            if argument.tokens:
                given.add(argument.keys[-1] if argument.keys else argument.name.lstrip("-"))

    return remember


def _check_whole(argument):
    """Tell whole numbers from others: cyclopts rounds 1.5 to 2 without a word, and Python reads up to 4300 digits."""
    kinds = typing.get_args(argument.hint) or (argument.hint,)
    if int not in kinds:
        return
    for token in argument.tokens:
        if re.fullmatch(r"[+-]?[0-9]{1000,}", token.value):
            digits = len(token.value.lstrip("+-0"))
            raise InputError(
                f"{argument.name} is too large, given a whole number of {digits} digits"
            )
        if not _is_a(int, token.value) and _is_a(float, token.value):
            given = shortened(token.value)
            raise InputError(f"{argument.name} must be a whole number, given {given}")


def _is_a(kind, text):
    try:
        kind(text)
    except ValueError:
        return False
    return True


def explain_mistake(error):
    """The sentence for a command line that cyclopts cannot read; its own, where there is none better."""
    if isinstance(error, UnknownOptionError):
        word = (error.token.keyword or error.token.value).split("=")[0]
        names = [name for one in error.argument_collection if one.parse for name in one.names]
        meant = option(KNOWN_ELSEWHERE.get(word.lstrip("-").replace("-", "_"), ""))
        near = nearest(word.lstrip("-"), [name.removeprefix("--") for name in names])
        proposed = [f"--{name}" for name in near]
        if meant in names:
            proposed = [meant]
        hint = (
            f"did you mean {' or '.join(proposed[:2])}?" if proposed else "--help lists the options"
        )
        return f"unknown option {shortened(word)}: {hint}"
    if isinstance(error, UnusedCliTokensError):
        words = error.unused_tokens
        command = " ".join(["tinyattn", *(error.command_chain or ())])
        return (
            f"{command} does not know what to do with {shown(words[0])}: its options have names "
            f"({command} --help lists them)"
        )
    return str(error)
