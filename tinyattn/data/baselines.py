"""What counting achieves: a network that learns more than pairs of characters must beat these."""

import numpy as np

from ..backend import host_array

# Added to every count, so that what training never saw costs much and not everything.
PSEUDO_COUNT = 0.1
PIECE = 1 << 20  # characters of a long text that are counted at once


def unigram_loss(train, validation, vocabulary_size):
    """Nats a character on ``validation`` for the frequencies of characters in ``train``.

    p(b) = (count(b) + a) / (length + a V), with the pseudo-count a = 0.1 (Lidstone smoothing).

    Args:
        train: ids, shape (length,).
        validation: ids, shape (length,).
        vocabulary_size: V, one more than the largest id possible.

    >>> round(unigram_loss(np.array([0, 1] * 50), np.array([0, 1]), 2), 3)  # ln 2
    0.693
    """
    train, validation = host_array(train), host_array(validation)
    counts = _counts(train, vocabulary_size) + PSEUDO_COUNT
    return float(np.mean(-np.log(counts / counts.sum())[validation]))


def bigram_loss(train, validation, vocabulary_size):
    """Nats a character on ``validation`` for the frequencies of pairs of characters in ``train``.

    p(b | a) = (count(ab) + s) / (count(a) + s V), with the pseudo-count s = 0.1.

    >>> round(bigram_loss(np.array([0, 1] * 5000), np.array([0, 1, 0]), 2), 3)  # certain
    0.0
    """
    train, validation = host_array(train), host_array(validation)
    size = vocabulary_size
    pair_count = _pair_counts(train, validation, size) + PSEUDO_COUNT
    first_count = _counts(train[:-1], size) + PSEUDO_COUNT * size
    return float(np.mean(np.log(first_count[validation[:-1]] / pair_count)))


def _counts(ids, size):
    """How often each id occurs; in pieces, because ``bincount`` makes large integers of what it counts."""
    starts = range(0, len(ids), PIECE)
    return sum(np.bincount(ids[start : start + PIECE], minlength=size) for start in starts)


def _pair_counts(train, validation, size):
    """How often each pair of neighbours in ``validation`` occurs in ``train``; in pieces, for a long text."""
    wanted = validation[:-1].astype(np.int64) * size + validation[1:]
    starts = range(0, len(train) - 1, PIECE)
    pieces = (train[start : start + PIECE + 1] for start in starts)
    numbers = (piece[:-1].astype(np.int64) * size + piece[1:] for piece in pieces)
    if size * size <= PIECE:
        table = np.zeros(size * size, np.int64)
        for pairs in numbers:
            table += np.bincount(pairs, minlength=size * size)
        return table[wanted]
    # Of a large vocabulary a table of all pairs would not fit: count those that are asked for, in a sorted list.
    asked = np.unique(wanted)
    counts = np.zeros(len(asked), np.int64)
    for pairs in numbers:
        seen, times = np.unique(pairs, return_counts=True)
        place = np.minimum(np.searchsorted(asked, seen), len(asked) - 1)
        found = asked[place] == seen
        counts[place[found]] += times[found]
    return counts[np.searchsorted(asked, wanted)]
