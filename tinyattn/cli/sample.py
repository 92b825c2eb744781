"""``tinyattn sample``: generate text from a trained model."""

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
    """Sampling options."""

    prompt: AnyText = ""
    """Text to continue; if empty, a newline if it is in the vocabulary."""

    length: Count = 500
    """Number of characters to generate [characters]."""

    temperature: NotNegative = 0.8
    """Sampling temperature: 0 is greedy decoding, 1 samples from the model's distribution [no unit]."""

    top_k: Count | None = None
    """Top-k sampling: sample from the K most likely characters [characters]."""

    top_p: Share | None = None
    """Nucleus sampling: sample from the smallest set of characters with this total probability [0 to 1]."""

    seed: Seed | None = None
    """Random seed; by default a different text each time."""

    unknown: Literal["error", "skip"] = "error"
    """Treatment of characters in the prompt that are not in the vocabulary."""

    state: Literal["best", "last"] | None = None
    """Saved state to load: best (lowest validation loss) or last; best by default, if there was an evaluation."""

    slide: Count = 1
    """Stride of the context window for texts longer than the block size; larger is faster [characters]."""

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
    """Generate text from a trained model, printed character by character."""
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
    """Yield the pieces; raise an InputError for logits that cannot be sampled from."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # reported by the error
            yield from pieces
    except ValueError as error:
        raise InputError(f"the model of {path} cannot generate text: {error}") from error
