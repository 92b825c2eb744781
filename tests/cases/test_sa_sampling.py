"""Hard cases SA: a character is drawn from the distribution that temperature, top-k and top-p define."""

import warnings

import numpy as np
import pytest

from tinyattn.backend import Random
from tinyattn.sampling import draw, sample_probabilities


@pytest.fixture(autouse=True)
def no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_SA_01_temperature_zero_takes_the_largest_every_time(random):
    p = sample_probabilities([1.0, 3.0, 2.0], temperature=0)
    assert [int(draw(p, Random(seed))) for seed in range(20)] == [1] * 20
    for temperature in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="temperature must be"):
            sample_probabilities([1.0, 3.0, 2.0], temperature)


def test_SA_02_a_tiny_temperature_is_finite_and_silent():
    assert sample_probabilities([100.0, 0.0], temperature=1e-3).tolist() == [1, 0]
    assert sample_probabilities([1.0, 3.0, 2.0], temperature=1e-3).tolist() == [0, 1, 0]


def test_SA_04_top_k_keeps_exactly_k_the_lowest_index_first():
    p = sample_probabilities([1.0, 2.0, 2.0, 2.0, 3.0], top_k=3)
    assert set(np.flatnonzero(p).tolist()) == {4, 1, 2}
    p = sample_probabilities([5.0, 5.0, 1.0], top_k=1)
    assert [int(draw(p, Random(seed))) for seed in range(20)] == [0] * 20


@pytest.mark.parametrize(
    ("p", "top_p", "expected"),
    [
        ([0.5, 0.3, 0.15, 0.05], 0.6, [0.625, 0.375, 0, 0]),
        ([0.5, 0.3, 0.15, 0.05], 0.85, [0.52631579, 0.31578947, 0.15789474, 0]),
        ([0.5, 0.35, 0.1, 0.05], 0.9, [0.52631579, 0.36842105, 0.10526316, 0]),
    ],
)
def test_SA_05_the_character_that_crosses_the_threshold_is_kept(equals, p, top_p, expected):
    equals(sample_probabilities(np.log(p), top_p=top_p), expected, decimals=8)


def test_SA_07_top_p_of_0_keeps_one_and_of_1_keeps_all(equals):
    p = [0.5, 0.3, 0.15, 0.05]
    assert sample_probabilities(np.log(p), top_p=0).tolist() == [1, 0, 0, 0]
    equals(sample_probabilities(np.log(p), top_p=1), p)
    for top_p in (1.1, -0.1):
        with pytest.raises(ValueError, match="top_p must be"):
            sample_probabilities(np.log(p), top_p=top_p)


def test_SA_08_float32_probabilities_are_normalized_in_float64():
    third = np.float32([1 / 3] * 3)
    assert abs(third.astype(np.float64).sum() - 1) > 1.49e-8  # what NumPy's choice refuses
    p = sample_probabilities(np.log(third))
    assert abs(p.sum() - 1) < 1e-15
    drawn = {int(draw(third.astype(np.float64), Random(seed))) for seed in range(50)}
    assert drawn == {0, 1, 2}


@pytest.mark.parametrize("temperature", [0, 1])
def test_SA_10_logits_that_are_nan_are_an_error(temperature):
    with pytest.raises(ValueError, match=r"cannot be sampled.*nan at \(0,\)"):
        sample_probabilities([float("nan"), 1.0, 2.0], temperature)
