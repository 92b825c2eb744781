"""Unigram and bigram losses."""

import itertools
import math

import numpy as np
import pytest

from tinyattn.data import baselines, bigram_loss, unigram_loss


def test_unigram_loss_is_the_cross_entropy_of_the_frequencies(random):
    train = random.integers(0, 3, 5000)
    validation = random.integers(0, 3, 500)
    p = (np.bincount(train, minlength=4) + 0.1) / (5000 + 0.4)
    expected = -np.mean([np.log(p[i]) for i in validation])
    assert unigram_loss(train, validation, 4) == pytest.approx(expected, rel=1e-12)


def test_bigram_loss_equals_a_full_table_of_pairs(random):
    train = random.integers(0, 5, 300).astype(np.uint8)
    validation = np.append(random.integers(0, 5, 60), [5, 6, 0]).astype(np.uint8)  # 5, 6: unseen
    counts = np.full((7, 7), 0.1)
    for a, b in itertools.pairwise(train):
        counts[a, b] += 1
    p = counts / counts.sum(axis=1, keepdims=True)
    expected = -np.mean([np.log(p[a, b]) for a, b in itertools.pairwise(validation)])
    assert bigram_loss(train, validation, 7) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("piece", [1, 7, 100, 1 << 20])
def test_the_pieces_in_which_a_long_text_is_counted_change_nothing(monkeypatch, piece):
    ids = np.random.default_rng(0).integers(0, 9, 500)
    train, validation = ids[:400], ids[400:]
    whole = bigram_loss(train, validation, 9)  # in a table of all pairs
    monkeypatch.setattr(baselines, "PIECE", piece)
    assert bigram_loss(train, validation, 9) == whole
    counted = sum(
        math.log(
            (sum(a == first for a in train[:-1]) + 0.1 * 9)
            / (sum((a, b) == (first, second) for a, b in itertools.pairwise(train)) + 0.1)
        )
        for first, second in itertools.pairwise(validation)
    )
    assert whole == pytest.approx(counted / 99)
