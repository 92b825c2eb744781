"""Every window can be drawn, every character is evaluated once, and short texts raise early."""

import numpy as np
import pytest

from tinyattn.backend import Random
from tinyattn.data import Batches, InputError, evaluation_batches, split_text


def drawn_starts(length, block_size):
    batches = Batches(np.arange(length), block_size, batch_size=200, random=Random(0))
    inputs, targets = batches.draw()
    assert np.array_equal(targets, inputs + 1)
    return set(inputs[:, 0].tolist())


def test_the_last_window_is_reachable_and_none_beyond():
    assert drawn_starts(8, 4) == {0, 1, 2, 3}
    assert drawn_starts(5, 4) == {0}


def test_a_text_shorter_than_a_window_is_refused_with_both_numbers():
    with pytest.raises(InputError, match=r"10 tokens .*16.*17"):
        Batches(np.arange(10), 16, 1, Random(0))


def test_a_short_validation_part_is_refused_before_training():
    with pytest.raises(InputError, match=r"90 are for training and 10 for validation.*fits is 9"):
        split_text(np.arange(100), 16)
    train, validation = split_text(np.arange(100), 9)
    assert np.array_equal(np.concatenate([train, validation]), np.arange(100))


def test_a_tiny_text_gets_advice_that_can_be_followed():
    with pytest.raises(InputError, match="pass a longer text"):
        split_text(np.arange(3), 1)


@pytest.mark.parametrize("length", [5, 8, 9, 10, 17, 33])
def test_evaluation_predicts_every_character_but_the_first_once(length):
    ids = np.arange(length, dtype=np.uint8)
    targets = []
    for inputs, batch_targets in evaluation_batches(ids, block_size=4, batch_size=3):
        assert inputs.shape == batch_targets.shape
        assert len(inputs) <= 3
        assert np.array_equal(batch_targets, inputs + 1)
        targets.extend(batch_targets.ravel().tolist())
    assert targets == list(range(1, length))


def test_the_same_seed_draws_the_same_batches_and_a_restored_state_continues():
    first = Batches(np.arange(50), 4, 3, Random(5))
    second = Batches(np.arange(50), 4, 3, Random(5))
    assert np.array_equal(first.draw()[0], second.draw()[0])
    state = first.random.state
    expected = first.draw()[0]
    second.random.state = state
    assert np.array_equal(second.draw()[0], expected)
