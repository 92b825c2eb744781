"""``tinyattn sample``: generate text with a trained model, a character at a time."""

import dataclasses
import sys
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from ..data import InputError
from ..data.paths import expand_path
from ..ranges import Count, NotNegative, Seed, Share
from ..train.config import as_annotated
from ..train.session import load_run, one_thread
from .options import AnyText, RunArgument, options


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


def add_to(app):
    app.command(sample)


def sample(
    run: RunArgument,
    /,
    *,
    how: Annotated[SampleOptions, options()] = SampleOptions(),
):
    """Let a trained model write; each character is printed as it is made."""
    how, path = as_annotated(how), expand_path(run, "the run")
    loaded = load_run(path, how.state, how.device)
    block_size = loaded.config.architecture.block_size
    if how.slide > block_size:
        raise InputError(f"--slide must be at most the block size {block_size}, given {how.slide}")
    settings = dataclasses.asdict(how)
    del settings["state"], settings["device"]
    pieces = loaded.stream(**settings)
    with one_thread():
        for piece in _report_bad_logits(pieces, path):
            sys.stdout.write(piece)
            sys.stdout.flush()
    sys.stdout.write("\n")
    return 0


def _report_bad_logits(pieces, path):
    """Yield the pieces, and raise an InputError if the model's logits cannot be sampled from."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # the error says it
            yield from pieces
    except ValueError as error:
        raise InputError(f"the model of {path} cannot write: {error}") from error
