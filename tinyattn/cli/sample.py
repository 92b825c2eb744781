"""``tinyattn sample``: generate text with a trained model, a character at a time."""

import dataclasses
import sys

import numpy as np

from ..data import InputError
from ..train.session import load_run, one_thread


def run(path, how):
    """Print the prompt and its continuation; returns the exit status.

    Args:
        path: directory of a run.
        how: ``SampleOptions``.
    """
    loaded = load_run(path, how.state, how.device)
    block_size = loaded.config.architecture.block_size
    if how.slide > block_size:
        raise InputError(f"--slide must be at most the block size {block_size}, given {how.slide}")
    options = dataclasses.asdict(how)
    del options["state"], options["device"]
    pieces = loaded.stream(**options)
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
