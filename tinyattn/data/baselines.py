"""What counting achieves: a network that learns more than pairs of characters must beat these."""

import numpy as np

from ..backend import host_array

# Added to every count, so that what training never saw costs much and not everything.
PSEUDO_COUNT = 0.1


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
    counts = np.bincount(train, minlength=vocabulary_size) + PSEUDO_COUNT
    return float(np.mean(-np.log(counts / counts.sum())[validation]))


def bigram_loss(train, validation, vocabulary_size):
    """Nats a character on ``validation`` for the frequencies of pairs of characters in ``train``.

    p(b | a) = (count(ab) + s) / (count(a) + s V), with the pseudo-count s = 0.1.

    >>> round(bigram_loss(np.array([0, 1] * 5000), np.array([0, 1, 0]), 2), 3)  # certain
    0.0
    """
    train, validation = host_array(train), host_array(validation)
    size = vocabulary_size
    seen, pairs = np.unique(train[:-1].astype(np.int64) * size + train[1:], return_counts=True)
    wanted = validation[:-1].astype(np.int64) * size + validation[1:]
    # A sorted table of the pairs that occur: V * V counts would not fit for a large vocabulary.
    place = np.minimum(np.searchsorted(seen, wanted), len(seen) - 1)
    pair_count = np.where(seen[place] == wanted, pairs[place], 0) + PSEUDO_COUNT
    first_count = np.bincount(train[:-1], minlength=size) + PSEUDO_COUNT * size
    return float(np.mean(np.log(first_count[validation[:-1]] / pair_count)))
