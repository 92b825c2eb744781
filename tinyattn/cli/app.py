"""The commands and their options; a command's work is imported when it is called for."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import App, Group, Parameter

from .. import __version__
from ..train.config import ModelOptions, OptimizerOptions, RunOptions, flatten_groups
from ..train.ranges import Count, CountOrZero, NotNegative, Share


def options(heading):
    """Make the fields of a dataclass options by their own names, under a heading of the help."""
    return Parameter(name="*", group=Group(heading, sort_key=HEADINGS.index(heading)))


HEADINGS = ("Run", "Source of options", "Model", "Optimiser", "Options")


@dataclass(frozen=True)
class SourceOptions:
    """Where options come from that are not given on the command line."""

    config: str | None = None
    """JSON file with options, such as a run's config.json; options given here override it [path]."""

    resume: str | None = None
    """Run to go on with, by its own options [directory]."""


@dataclass(frozen=True)
class SampleOptions:
    """How text is sampled."""

    prompt: str = ""
    """Text to continue; nothing: a line break where the vocabulary has one."""

    length: Count = 500
    """How much to write [characters]."""

    temperature: NotNegative = 0.8
    """0 always takes the likeliest character, 1 samples what the model believes [no unit]."""

    top_k: Count | None = None
    """Sample from the likeliest K characters only [characters]."""

    top_p: Share | None = None
    """Sample from the likeliest characters that together reach this probability [0 to 1]."""

    seed: CountOrZero | None = None
    """Start of the random stream; another text each time by default."""

    unknown: Literal["error", "skip"] = "error"
    """What to do with a character of the prompt that the model does not know."""

    state: Literal["best", "last"] = "best"
    """Which of the run's two states to take."""

    slide: Count = 1
    """How far the context moves once the text has outgrown it; more is faster [characters]."""

    device: str | None = None
    """Device: cpu, cuda, cuda:N or strict; TINYATTN_DEVICE or cpu by default."""


def make_app():
    """The command line, new for each call of ``main``."""
    app = App(
        name="tinyattn",
        help="Attention and a small GPT whose every backward pass can be read, checked, watched.",
        version=__version__,
    )
    given = set()
    app.config = _remember_given(given)

    @app.command
    def train(
        *,
        run: Annotated[RunOptions, options("Run")] = RunOptions(),  # noqa: B008
        source: Annotated[SourceOptions, options("Source of options")] = SourceOptions(),
        model: Annotated[ModelOptions, options("Model")] = ModelOptions(),  # noqa: B008
        optimizer: Annotated[OptimizerOptions, options("Optimiser")] = OptimizerOptions(),  # noqa: B008
    ):
        """Train a small model on text, a character at a time; the defaults take about a minute.

        The defaults shown are those of the preset fast. An option given here wins over the file given with
        --config, and that over the preset.
        """
        from . import train

        values = flatten_groups(run, model, optimizer)
        return train.run({name: values[name] for name in given & values.keys()}, source)

    @app.command
    def sample(
        run: Annotated[str, Parameter(help="Directory of a run.")],
        /,
        *,
        how: Annotated[SampleOptions, options("Options")] = SampleOptions(),
    ):
        """Let a trained model write; each character is printed as it is made."""
        from . import sample

        return sample.run(run, how)

    @app.command
    def gradcheck(
        run: Annotated[
            str | None,
            Parameter(help="Directory of a run whose model is checked; the library without it."),
        ] = None,
        /,
        *,
        op: Annotated[str | None, Parameter(help="Check one operation or block [name].")] = None,
        device: Annotated[
            str | None, Parameter(help="Device: cpu, cuda, cuda:N or strict.")
        ] = None,
        html: Annotated[
            str | None, Parameter(help="Write a page with the step-size curves [file].")
        ] = None,
        broken: Annotated[
            str | None,
            Parameter(
                name="--break",
                help="Plant known mistakes into an operation's rule, such as softmax.",
            ),
        ] = None,
        order: Annotated[
            Literal[1, 2] | None, Parameter(help="2 checks the gradients of the gradients as well.")
        ] = None,
        seed: Annotated[CountOrZero, Parameter(help="Of inputs, cotangents and directions.")] = 0,
    ):
        """Hold every gradient against differences; status 1 if one is wrong."""
        from . import gradcheck

        return gradcheck.run(
            run, op=op, device=device, html=html, broken=broken, order=order, seed=seed
        )

    return app


def _remember_given(given):
    """A cyclopts hook that notes which options were given, by the name of their field."""

    def remember(app, commands, arguments):
        for argument in arguments:
            if argument.tokens:
                given.add(argument.keys[-1] if argument.keys else argument.name.lstrip("-"))

    return remember
