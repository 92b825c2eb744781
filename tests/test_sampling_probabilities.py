"""Sampling probabilities: temperature, top-k, top-p, and edge cases."""

import warnings

import numpy as np
import pytest

from tinyattn.backend import Random
from tinyattn.sampling import context_start, draw, sample_probabilities

P = np.array([0.5, 0.3, 0.15, 0.05])


@pytest.fixture(autouse=True)
def no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_plain_sampling_is_softmax(random):
    logits = random.normal(size=(3, 7))
    expected = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    assert np.allclose(sample_probabilities(logits), expected, rtol=1e-14)
    divided = np.exp(logits / 0.5) / np.exp(logits / 0.5).sum(axis=-1, keepdims=True)
    assert np.allclose(sample_probabilities(logits, temperature=0.5), divided, rtol=1e-14)


def test_temperature_zero_is_greedy():
    assert sample_probabilities([1.0, 3.0, 2.0], temperature=0).tolist() == [0, 1, 0]
    assert sample_probabilities([2.0, 3.0, 3.0], temperature=0).tolist() == [0, 1, 0]


@pytest.mark.parametrize("temperature", [1e-3, 1e-300, 5e-324])
def test_a_tiny_temperature_is_nearly_greedy_without_a_warning(temperature):
    assert sample_probabilities([100.0, 0.0], temperature).tolist() == [1, 0]
    assert sample_probabilities([1.0, 3.0, 2.0], temperature).tolist() == [0, 1, 0]


@pytest.mark.parametrize("temperature", [-1, float("nan"), float("inf")])
def test_a_temperature_out_of_range_is_refused(temperature):
    with pytest.raises(ValueError, match="temperature must be"):
        sample_probabilities([1.0, 2.0], temperature)


def test_top_k_keeps_exactly_k_the_lowest_ids_among_equals():
    p = sample_probabilities([1.0, 2.0, 2.0, 2.0, 3.0], top_k=3)
    assert np.flatnonzero(p).tolist() == [1, 2, 4]
    assert sample_probabilities([5.0, 5.0, 1.0], top_k=1).tolist() == [1, 0, 0]


def test_top_k_beyond_the_vocabulary_is_the_whole_vocabulary(random):
    logits = random.normal(size=5)
    assert np.array_equal(sample_probabilities(logits, top_k=9), sample_probabilities(logits))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "p, top_p, kept",
    [
        ([0.3, 0.1, 0.1, 0.5], 0.8, [0, 3]),
        ([0.3, 0.1, 0.1, 0.5], 0.81, [0, 1, 3]),
        ([0.3, 0.1, 0.1, 0.5], 0.9, [0, 1, 3]),
        ([0.1] * 10, 0.7, list(range(7))),
        ([0.1] * 10, 0.3, list(range(3))),
        ([0.7, 0.2, 0.1], 0.7, [0]),
        ([0.7, 0.2, 0.1], 0.70001, [0, 1]),
    ],
)
def test_top_p_keeps_the_smallest_set_that_reaches_it_whatever_the_rounding(p, top_p, kept, dtype):
    found = sample_probabilities(np.log(np.array(p, dtype)), top_p=top_p)
    assert np.flatnonzero(found).tolist() == kept
    shifted = sample_probabilities(np.log(np.array(p, dtype)) + np.array(3.3, dtype), top_p=top_p)
    assert np.flatnonzero(shifted).tolist() == kept


@pytest.mark.parametrize("top_k", [0, -1, 1.5])
def test_a_top_k_out_of_range_is_refused(top_k):
    with pytest.raises(ValueError, match="top_k must be"):
        sample_probabilities([1.0, 2.0], top_k=top_k)


@pytest.mark.parametrize(
    "p, top_p, expected",
    [
        (P, 0.6, [0.625, 0.375, 0, 0]),
        (P, 0.85, [0.52631579, 0.31578947, 0.15789474, 0]),
        ([0.5, 0.35, 0.1, 0.05], 0.9, [0.52631579, 0.36842105, 0.10526316, 0]),
        (P[::-1], 0.6, [0, 0, 0.375, 0.625]),
        (P, 0, [1, 0, 0, 0]),
        (P, 1, P),
    ],
)
def test_top_p_keeps_the_character_that_crosses_the_threshold(p, top_p, expected):
    assert np.allclose(sample_probabilities(np.log(p), top_p=top_p), expected, atol=1e-8)


@pytest.mark.parametrize("top_p", [-0.1, 1.1, float("nan")])
def test_a_top_p_out_of_range_is_refused(top_p):
    with pytest.raises(ValueError, match="top_p must be"):
        sample_probabilities([1.0, 2.0], top_p=top_p)


@pytest.mark.parametrize("temperature", [0, 1])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_nan_and_inf_logits_are_an_error(temperature, wrong):
    with pytest.raises(ValueError, match=rf"{wrong} at \(1,\)"):
        sample_probabilities([1.0, wrong, 2.0], temperature)


def test_minus_infinity_is_never_drawn_and_only_minus_infinity_is_an_error():
    assert sample_probabilities([-np.inf, 1.0], temperature=1).tolist() == [0, 1]
    assert sample_probabilities([-np.inf, 1.0], temperature=0).tolist() == [0, 1]
    with pytest.raises(ValueError, match="every logit is -inf"):
        sample_probabilities([-np.inf, -np.inf])


def test_float32_probabilities_sum_to_one_in_float64(random):
    for _ in range(50):
        logits = random.normal(size=65).astype(np.float32)
        p = sample_probabilities(logits)
        assert p.dtype == np.float64
        assert abs(p.sum() - 1) < 1e-15 * 65


def test_draws_follow_the_distribution_and_never_have_probability_0():
    p = np.array([0.0, 0.25, 0.0, 0.75, 0.0])
    drawn = draw(np.broadcast_to(p, (4000, 5)), Random(0))
    counts = np.bincount(drawn, minlength=5) / 4000
    assert counts[[0, 2, 4]].tolist() == [0, 0, 0]
    assert abs(counts[1] - 0.25) < 0.03


def test_the_largest_uniform_number_draws_an_id_with_probability_above_0():
    class Highest:
        def uniform(self, size):
            return np.full(size, 1.0)

    assert int(draw(np.array([0.3, 0.7, 0.0]), Highest())) == 1
    assert int(draw(np.full(3, np.float64(np.float32(1 / 3))), Highest())) == 2


@pytest.mark.parametrize("slide", [1, 2, 3, 4])
def test_the_context_never_exceeds_the_block_and_moves_in_strides(slide):
    starts = [context_start(position, 4, slide) for position in range(1, 40)]
    lengths = [position - start for position, start in enumerate(starts, 1)]
    assert max(lengths) <= 4
    assert min(lengths[4:]) >= 4 - slide + 1
    assert set(np.diff(starts)) <= {0, slide}
