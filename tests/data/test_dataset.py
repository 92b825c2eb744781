"""A dataset splits the text alike for every tokenizer, and measures what an evaluation covers."""

import numpy as np
import pytest

from tinyattn.data import TOKENIZERS, InputError, TextDataset, bigram_loss, evaluation_batches
from tinyattn.data.dataset import bits_per_character, make_tokenizer

TEXT = "the naïve cat 注意 sat on the mat; 🙂 the end.\n" * 40


@pytest.fixture(params=TOKENIZERS)
def dataset(request):
    if request.param == "bpe":
        pytest.importorskip("tokenizers")
    return TextDataset(
        TEXT, 8, make_tokenizer(TEXT, request.param, 300 if request.param == "bpe" else None)
    )


def test_the_validation_text_does_not_depend_on_the_tokenizer(dataset):
    cut = int(0.9 * len(TEXT))
    assert dataset.vocabulary.decode(dataset.train) == TEXT[:cut]
    assert dataset.vocabulary.decode(dataset.validation) == TEXT[cut:]


def test_the_evaluated_characters_are_those_of_the_predicted_tokens(dataset):
    vocabulary = dataset.vocabulary
    evaluated = dataset.evaluated()
    assert evaluated.tokens == len(dataset.validation) - 1
    assert evaluated.characters == sum(
        sum(byte & 0xC0 != 0x80 for byte in vocabulary.token_bytes(i))
        for i in dataset.validation[1:]
    )
    assert dataset.evaluated(16).tokens == 16


def test_the_baselines_are_those_of_the_evaluated_tokens(dataset):
    batches = list(evaluation_batches(dataset.validation, 8, 4, tokens=24))
    inputs, targets = (np.concatenate([batch[i].ravel() for batch in batches]) for i in range(2))
    train, size = dataset.train.astype(np.int64), len(dataset.vocabulary)
    pairs, firsts = np.zeros((size, size)), np.zeros(size)
    np.add.at(pairs, (train[:-1], train[1:]), 1)
    np.add.at(firsts, train[:-1], 1)
    expected = -np.log((pairs[inputs, targets] + 0.1) / (firsts[inputs] + 0.1 * size))
    found = dataset.evaluated(24).baselines
    np.testing.assert_allclose(found["bigram"], expected.mean(), rtol=1e-12)
    counts = np.bincount(train, minlength=size) + 0.1
    np.testing.assert_allclose(
        found["unigram"], -np.log(counts / counts.sum())[targets].mean(), rtol=1e-12
    )


def test_a_uniform_model_of_bytes_has_8_bits_for_each_byte():
    dataset = TextDataset("é" * 200, 8, make_tokenizer("", "bytes"))
    assert dataset.evaluated(16).bits_per_character(np.log(256)) == pytest.approx(16)
    assert bits_per_character(np.log(2), tokens=30, characters=10) == pytest.approx(3)


def test_byte_pairs_are_learned_from_the_training_part_only():
    pytest.importorskip("tokenizers")
    text = "ab " * 300 + "xyz " * 25
    symbols = make_tokenizer(text, "bpe", 260).symbols
    assert "ab" in symbols and "xy" not in symbols


def test_a_text_without_enough_tokens_is_refused_in_its_unit():
    with pytest.raises(InputError, match=r"blocks of 64 bytes.*200 bytes 180 are for training"):
        TextDataset("a" * 200, 64, make_tokenizer("", "bytes"))


def test_pairs_of_a_large_vocabulary_need_no_table(random):
    """A table of all pairs of 50,257 tokens would have 20 GB."""
    train, validation = random.integers(50257, size=(2, 1000))
    assert np.isfinite(bigram_loss(train, validation, 50257))
