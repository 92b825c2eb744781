"""The losses that counting achieves."""

import itertools

import numpy as np
import pytest

from tinyattn.data import bigram_loss, unigram_loss


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
