"""Windows of a text: random ones for training, consecutive ones for evaluation."""

import numpy as np

from ..backend import host_array
from .errors import InputError

TRAIN_FRACTION = 0.9


def split_text(ids, block_size, train_fraction=TRAIN_FRACTION):
    """Split ``ids`` into a first part for training and the rest for validation.

    Args:
        ids: integers, shape (length,).
        block_size: tokens in a window; each part needs a window and the token after it.
        train_fraction: fraction of the tokens for training.

    Returns:
        Two views of ``ids``.

    Raises:
        InputError: if a part is too short; the message has the lengths and the largest possible block size.

    >>> train, validation = split_text(np.arange(100), block_size=8)
    >>> len(train), len(validation)
    (90, 10)
    """
    ids = host_array(ids)
    cut = int(len(ids) * train_fraction)
    train, validation = ids[:cut], ids[cut:]
    check_parts(train, validation, block_size)
    return train, validation


def check_parts(train, validation, block_size, unit="character"):
    """Raise InputError if a part is too short for a window of ``block_size`` ids and the one after it."""
    shorter = min(len(train), len(validation))
    if shorter < block_size + 1:
        advice = (
            f"the largest block size that fits is {shorter - 1}"
            if shorter > 1
            else "pass a longer text"
        )
        raise InputError(
            f"the text is too short for blocks of {block_size} {unit}s: "
            f"of its {len(train) + len(validation)} {unit}s {len(train)} are for training and {len(validation)} for "
            f"validation, and each part needs {block_size + 1}; {advice}"
        )


class Batches:
    """Random windows of a text, drawn independently with replacement.

    Args:
        ids: integers, shape (length,), length > block_size.
        block_size: tokens in a window.
        batch_size: windows in a batch.
        random: the random stream (``tinyattn.backend.Random``).

    >>> from tinyattn.backend import Random
    >>> batches = Batches(np.arange(8), block_size=4, batch_size=2, random=Random(0))
    >>> inputs, targets = batches.draw()
    >>> inputs.shape, bool((targets == inputs + 1).all())
    ((2, 4), True)
    """

    def __init__(self, ids, block_size, batch_size, random):
        if len(ids) < block_size + 1:
            raise InputError(
                f"a text of {len(ids)} tokens is too short for blocks of {block_size}: "
                f"a window and the token after it need {block_size + 1}"
            )
        self.ids = host_array(ids)
        self.block_size = block_size
        self.batch_size = batch_size
        self.random = random

    @property
    def window_count(self):
        """The number of windows; the last one ends one token before the end of the text."""
        return len(self.ids) - self.block_size

    def draw(self):
        """The next batch: inputs, and targets one token later, both int64, (batch_size, block_size)."""
        starts = self.random.integers(0, self.window_count, size=self.batch_size)
        return _windows(self.ids, starts, self.block_size)


def _windows(ids, starts, block_size):
    positions = np.asarray(starts)[:, None] + np.arange(block_size + 1)  # (batch, block + 1)
    windows = ids[positions].astype(np.int64)
    return windows[:, :-1], windows[:, 1:]


def evaluation_batches(ids, block_size, batch_size, tokens=None):
    """Consecutive windows whose targets are every token of ``ids`` except the first, once.

    Args:
        ids: integers, shape (length,).
        block_size: tokens in a window; the last window may be shorter.
        batch_size: maximum number of windows in a batch.
        tokens: if ``ids`` is longer, use only as many whole windows as contain this number of tokens (at least
            one), spread evenly over ``ids``.

    Yields:
        Inputs and targets, int64, (windows, tokens).

    >>> [targets.tolist() for _, targets in evaluation_batches(np.arange(8), 3, 2)]
    [[[1, 2, 3], [4, 5, 6]], [[7]]]
    >>> [targets.tolist() for _, targets in evaluation_batches(np.arange(13), 3, 2, tokens=6)]
    [[[1, 2, 3], [7, 8, 9]]]
    """
    ids = host_array(ids)
    windows = (len(ids) - 1) // block_size
    whole = tokens is None or tokens >= len(ids) - 1
    count = windows if whole else min(windows, max(1, tokens // block_size))
    for first in range(0, count, batch_size):
        chosen = np.arange(first, min(first + batch_size, count)) * windows // count
        yield _windows(ids, chosen * block_size, block_size)
    rest = (len(ids) - 1) % block_size
    if rest and whole:
        yield _windows(ids, [windows * block_size], rest)
