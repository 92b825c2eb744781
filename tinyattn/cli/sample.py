"""``tinyattn sample``: generate text from a trained model."""

import dataclasses
import sys
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from ..data import InputError
from ..data.paths import expand_path
from ..ranges import Count, NotNegative, Seed, Share
from ..sampling import default_slide
from ..train.config import as_annotated
from ..train.loading import load_model, one_thread
from .options import AnyText, ModelArgument, options


@dataclass(frozen=True)
class SampleOptions:
    """Sampling options."""

    prompt: AnyText = ""
    """Text to continue; if empty, a newline or an end-of-text token, if the vocabulary has one."""

    length: Count = 500
    """Number of tokens to generate; fewer if the model ends the text [tokens]."""

    temperature: NotNegative = 0.8
    """Sampling temperature: 0 is greedy decoding, 1 samples from the model's distribution [no unit]."""

    top_k: Count | None = None
    """Top-k sampling: sample from the K most likely tokens [tokens]."""

    top_p: Share | None = None
    """Nucleus sampling: sample from the smallest set of tokens with this total probability [0 to 1]."""

    seed: Seed | None = None
    """Random seed; by default a different text each time."""

    unknown: Literal["error", "skip"] = "error"
    """Treatment of characters in the prompt that are not in the vocabulary."""

    state: Literal["best", "last"] | None = None
    """Saved state to load: best (lowest validation loss) or last; best by default, if there was an evaluation."""

    slide: Count | None = None
    """Stride of the context window for texts longer than the block size; larger is faster. By default 1, and half the
    block size for block sizes above 256 [tokens]."""

    device: str | None = None
    """Device: cpu, cuda, cuda:N or strict; TINYATTN_DEVICE or cpu by default."""


def add_to(app):
    app.command(sample)


def sample(
    model: ModelArgument,
    /,
    *,
    how: Annotated[SampleOptions, options()] = SampleOptions(),
):
    """Generate text from a trained model, printed token by token."""
    how, path = as_annotated(how), expand_path(model, "the model")
    loaded = load_model(path, how.state, how.device)
    block_size = loaded.model.config.block_size
    if how.slide is not None and how.slide > block_size:
        raise InputError(f"--slide must be at most the block size {block_size}, given {how.slide}")
    settings = dataclasses.asdict(how)
    del settings["state"], settings["device"]
    pieces = loaded.stream(**settings)
    if how.slide is None:
        _print_slide(loaded, how)
    with one_thread():
        for piece in _report_bad_logits(pieces, path):
            sys.stdout.write(piece)
            sys.stdout.flush()
    sys.stdout.write("\n")
    return 0


def _print_slide(loaded, how):
    """Print how the end of a text that does not fit the context is predicted, if not from the whole context."""
    block_size = loaded.model.config.block_size
    slide = default_slide(block_size)
    length = len(loaded.vocabulary.encode(how.prompt, how.unknown)) + how.length
    if slide > 1 and length > block_size:
        print(
            f"tinyattn: the context has {block_size:,} {loaded.vocabulary.unit}s, and the text may have {length:,}: "
            f"those beyond are predicted from the last {block_size - slide + 1:,} to {block_size:,} (--slide 1: from "
            f"the last {block_size:,}, which is slower)",
            file=sys.stderr,
        )


def _report_bad_logits(pieces, path):
    """Yield the pieces; raise an InputError for logits that cannot be sampled from."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # reported by the error
            yield from pieces
    except ValueError as error:
        raise InputError(f"the model of {path} cannot generate text: {error}") from error
