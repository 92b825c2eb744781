"""Unigram and bigram losses of characters or tokens: baselines that a useful language model must beat."""

import numpy as np

from ..backend import host_array

PSEUDO_COUNT = 0.1  # added to every count, so that unseen tokens and pairs have a finite loss
PIECE = 1 << 20  # tokens that are counted at once, to limit the memory for a long text


def unigram_loss(train, validation, vocabulary_size):
    """The loss on ``validation``, in nats per token, of the token frequencies in ``train``.

    p(b) = (count(b) + a) / (length + a V), with the pseudo-count a = 0.1 (Lidstone smoothing).

    Args:
        train: ids, shape (length,).
        validation: ids, shape (length,).
        vocabulary_size: V; ids are below it.

    >>> round(unigram_loss(np.array([0, 1] * 50), np.array([0, 1]), 2), 3)  # ln 2
    0.693
    """
    train, validation = host_array(train), host_array(validation)
    counts = _counts(train, vocabulary_size) + PSEUDO_COUNT
    return float(np.mean(-np.log(counts / counts.sum())[validation]))


def bigram_loss(train, validation, vocabulary_size, before=None):
    """The loss on ``validation``, in nats per token, of the frequencies of pairs of tokens in ``train``.

    p(b | a) = (count(ab) + s) / (count(a) + s V), with the pseudo-count s = 0.1.

    Args:
        train, validation, vocabulary_size: as for ``unigram_loss``.
        before: the id before each of ``validation``; by default ``validation`` is one text, and its first id does not
            count.

    >>> round(bigram_loss(np.array([0, 1] * 5000), np.array([0, 1, 0]), 2), 3)  # certain
    0.0
    """
    train, validation = host_array(train), host_array(validation)
    if before is None:
        before, validation = validation[:-1], validation[1:]
    size = vocabulary_size
    pair_count = _pair_counts(train, before, validation, size) + PSEUDO_COUNT
    first_count = _counts(train[:-1], size) + PSEUDO_COUNT * size
    return float(np.mean(np.log(first_count[before] / pair_count)))


def _counts(ids, size):
    """The count of each id; computed in pieces, because ``bincount`` converts its input to int64."""
    starts = range(0, len(ids), PIECE)
    return sum(np.bincount(ids[start : start + PIECE], minlength=size) for start in starts)


def _pair_counts(train, first, second, size):
    """The count in ``train`` of each pair of ``first`` and ``second`` as neighbors; computed in pieces."""
    wanted = first.astype(np.int64) * size + second
    starts = range(0, len(train) - 1, PIECE)
    pieces = (train[start : start + PIECE + 1] for start in starts)
    numbers = (piece[:-1].astype(np.int64) * size + piece[1:] for piece in pieces)
    if size * size <= PIECE:
        table = np.zeros(size * size, np.int64)
        for pairs in numbers:
            table += np.bincount(pairs, minlength=size * size)
        return table[wanted]
    # A table of all pairs of a large vocabulary would not fit into memory: count only the requested pairs.
    requested, inverse = np.unique(wanted, return_inverse=True)
    counts = np.zeros(len(requested), np.int64)
    for pairs in numbers:
        seen, times = np.unique(pairs, return_counts=True)
        _, in_seen, in_requested = np.intersect1d(seen, requested, True, return_indices=True)
        counts[in_requested] += times[in_seen]
    return counts[inverse]
