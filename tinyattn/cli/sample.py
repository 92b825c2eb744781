"""``tinyattn sample``: a trained model writes, a character at a time."""

import sys

from ..backend import Random
from ..data import InputError
from ..generate import generate
from ..train.config import check_options
from ..train.session import load_run


def run(path, how):
    """Print the prompt and its continuation; returns the exit status.

    Args:
        path: directory of a run.
        how: ``SampleOptions``.
    """
    check_options(how)
    loaded = load_run(path, how.state, how.device)
    if not hasattr(loaded.model, "cache"):
        raise InputError(
            f"{path} holds an encoder, which fills in masked characters and does not write: "
            f"give a run of another --model"
        )
    vocabulary = loaded.vocabulary
    block_size = loaded.config.architecture.block_size
    if how.slide > block_size:
        raise InputError(f"--slide must be at most the block size {block_size}, given {how.slide}")
    prompt = vocabulary.encode(how.prompt, how.unknown)
    known = vocabulary.decode(prompt)
    if not len(prompt):
        if how.prompt:
            raise InputError("no character of --prompt is known to the model: give another one")
        prompt = vocabulary.encode(vocabulary.start)
    from threadpoolctl import threadpool_limits

    sys.stdout.write(known)
    ids = generate(
        loaded.model,
        prompt,
        how.length,
        temperature=how.temperature,
        top_k=how.top_k,
        top_p=how.top_p,
        random=Random(how.seed),
        slide=how.slide,
    )
    # One character's products are too small to be worth a second thread.
    with threadpool_limits(1, "blas"):
        for i in _or_refuse(ids, path):
            sys.stdout.write(vocabulary.decode([i]))
            sys.stdout.flush()
    sys.stdout.write("\n")
    return 0


def _or_refuse(ids, path):
    """The ids; an InputError where the model's logits are no numbers to sample by."""
    try:
        yield from ids
    except ValueError as error:
        raise InputError(f"the model of {path} cannot write: {error}") from error
