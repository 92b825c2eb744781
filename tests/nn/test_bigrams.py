"""The bigram embedding: rows of pairs, hashing, and the token before each one."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn import nn
from tinyattn.nn.bigrams import previous_ids


def drawn(vocabulary_size, dim, most_rows, device="cpu"):
    layer = nn.BigramEmbedding(vocabulary_size, dim, most_rows).to("float64").to(device)
    layer.weight.data = np.random.default_rng(0).normal(size=layer.weight.shape)
    return layer


@pytest.mark.parametrize("most_rows", [12, 100])
def test_each_pair_has_its_own_row_if_the_table_can_have_as_many(most_rows):
    layer = nn.BigramEmbedding(3, 2, most_rows)
    rows = [layer.rows(token, before) for before in range(4) for token in range(3)]
    assert layer.weight.shape == (12, 2)
    assert sorted(rows) == list(range(12))


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_the_vector_is_that_of_the_pair(dtype, device):
    layer = drawn(200, 3, 200 * 201, device)
    ids = ta.tensor(np.array([[7, 199, 7], [0, 0, 199]], dtype), device=device)
    table = layer.weight.numpy().reshape(201, 200, 3)  # previous, id
    found = layer(ids).numpy()
    np.testing.assert_array_equal(found, table[[[200, 7, 199], [200, 0, 0]], ids.numpy()])


@pytest.mark.parametrize("vocabulary_size", [257, 50_257, 2_000_000])
def test_hashed_rows_are_spread_over_the_whole_table(vocabulary_size, random):
    layer = nn.BigramEmbedding(vocabulary_size, 1, 64)
    pairs = random.integers(0, vocabulary_size, (2, 64_000))
    rows = layer.rows(*pairs)
    counts = np.bincount(rows, minlength=64)
    assert counts.shape == (64,) and counts.min() > 800 and counts.max() < 1200
    assert layer.rows(int(pairs[0, 0]), int(pairs[1, 0])) == rows[0]


def test_a_hashed_row_depends_on_both_tokens():
    layer = nn.BigramEmbedding(300, 1, 1000)
    tokens = np.arange(300)
    assert len(set(layer.rows(tokens, np.full(300, 5)))) > 200
    assert len(set(layer.rows(np.full(300, 5), tokens))) > 200


def test_training_starts_with_the_vectors_of_single_tokens():
    assert not nn.BigramEmbedding(5, 4, 100).weight.numpy().any()


@pytest.mark.parametrize("most_rows", [5, 100])
def test_a_row_gets_the_sum_of_the_cotangents_of_its_pairs(most_rows, device, random):
    layer = drawn(4, 3, most_rows, device)
    ids, before = np.array([[1, 1, 1], [3, 0, 1]]), np.array([[4, 1, 1], [4, 3, 0]])
    g = random.normal(size=(2, 3, 3))
    layer(ta.tensor(ids, device=device)).backward(ta.tensor(g, device=device))
    expected = np.zeros(layer.weight.shape)
    np.add.at(expected, layer.rows(ids, before), g)
    np.testing.assert_allclose(layer.weight.grad.numpy(), expected)


def test_padding_does_not_separate_a_token_from_the_one_before_it(device):
    ids = ta.tensor([[9, 1, 9, 9, 2], [3, 9, 9, 4, 9]], device=device)
    mask = ids._data != 9
    previous, last = previous_ids(ids, 10, padding_mask=mask)
    previous, last = ta.Tensor._wrap(previous).numpy(), ta.Tensor._wrap(last).numpy()
    assert previous[0, [1, 4]].tolist() == [10, 1]
    assert previous[1, [0, 3]].tolist() == [10, 3]
    assert last.tolist() == [2, 4]


def test_tokens_in_parts_have_the_same_tokens_before_them(device, random):
    ids = random.integers(0, 9, (2, 6))
    mask = random.integers(0, 2, (2, 6)).astype(bool)
    for padding_mask in (None, mask):
        parts, before = [], None
        for start, end in ((0, 2), (2, 3), (3, 6)):
            part = None if padding_mask is None else padding_mask[:, start:end]
            previous, before = previous_ids(ids[:, start:end], 9, part, before)
            parts.append(previous)
        whole, last = previous_ids(ids, 9, padding_mask)
        np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)
        np.testing.assert_array_equal(before, last)


def test_other_texts_than_those_in_the_cache_are_refused():
    _, before = previous_ids(np.zeros((2, 3), int), 9)
    with pytest.raises(
        ValueError, match=r"texts of shape \(2,\), got new tokens of shape \(3, 1\)"
    ):
        previous_ids(np.zeros((3, 1), int), 9, before=before)
