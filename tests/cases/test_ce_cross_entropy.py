"""Hard cases CE: ignored targets do not count, labels outside the classes raise, and means of parts add up.

Where no place counts, the mean is 0 (CE-01, CE-10).
"""

import math

import numpy as np
import pytest

import tinyattn as ta


@pytest.fixture
def labels(device):
    return lambda values: ta.tensor(np.array(values), device=device)


@pytest.mark.parametrize(
    ("reduction", "expected"), [("mean", 0.0), ("sum", 0.0), ("none", [0.0, 0.0])]
)
def test_CE_01_where_all_places_are_ignored_the_gradient_is_zero(
    leaf, equals, labels, reduction, expected
):
    logits = leaf([[1, 2, 3], [0, 0, 0]])
    loss = ta.cross_entropy(logits, labels([-100, -100]), reduction=reduction)
    equals(loss, expected)
    loss.sum().backward()
    equals(logits.grad, np.zeros((2, 3)))


def test_CE_02_the_mean_is_over_the_places_that_count(leaf, equals, labels):
    logits = leaf([[1, 2, 3], [1, 2, 3], [9, 9, 9]])
    target = labels([2, 0, -100])
    each = ta.cross_entropy(logits, target, reduction="none")
    equals(each, [0.40760596, 2.40760596, 0], decimals=8)
    loss = ta.cross_entropy(logits, target)
    equals(loss, 1.40760596, decimals=8)
    loss.backward()
    expected = [
        [0.04501529, 0.12236424, -0.16737952],
        [-0.45498471, 0.12236424, 0.33262048],
        [0, 0, 0],
    ]
    equals(logits.grad, expected, decimals=8)


def test_CE_04_without_smoothing_an_impossible_class_does_no_harm(leaf, equals, labels):
    logits = leaf([[0, -np.inf]])
    loss = ta.cross_entropy(logits, labels([0]))
    equals(loss, 0.0)
    loss.backward()
    equals(logits.grad, [[0, 0]])
    assert ta.cross_entropy(logits, labels([0]), label_smoothing=0.1).item() == math.inf


@pytest.mark.parametrize("wrong", [3, -1, 1.0])
def test_CE_05_a_label_that_names_no_class_is_an_error_on_every_device(leaf, labels, wrong):
    name = "float64" if isinstance(wrong, float) else f"target {wrong}"
    with pytest.raises((IndexError, ValueError), match=name):
        ta.cross_entropy(leaf([[1, 2, 3]]), labels([wrong]))


def test_CE_07_an_ignored_class_stays_in_the_denominator(leaf, equals, labels):
    logits = leaf(np.ones((2, 3)))
    loss = ta.cross_entropy(logits, labels([1, 2]), ignore_index=0)
    equals(loss, math.log(3))
    loss.backward()
    equals(logits.grad, [[1 / 6, -1 / 3, 1 / 6], [1 / 6, 1 / 6, -1 / 3]])


def test_CE_08_a_negative_label_that_is_not_the_ignored_one_is_an_error(leaf, labels):
    with pytest.raises(IndexError, match="-4"):
        ta.cross_entropy(leaf(np.ones((2, 3))), labels([0, -4]), ignore_index=-1)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_CE_10_an_empty_batch_has_loss_zero(leaf, equals, labels, reduction):
    logits = leaf(np.zeros((0, 3)))
    loss = ta.cross_entropy(logits, labels(np.zeros(0, int)), reduction=reduction)
    equals(loss, 0.0)
    loss.backward()
    assert logits.grad.shape == (0, 3)


def test_CE_11_parts_are_weighted_by_the_places_that_count(leaf, equals, labels, random):
    # Two classes with logits (0, z): the loss of class 0 is log(1 + e^z), here 2 and three times 1.
    z = np.log(np.expm1([2.0, 1.0, 1.0, 1.0]))
    scores = np.stack([np.zeros(4), z], axis=-1)
    whole = leaf(scores)
    target = np.zeros(4, int)
    loss = ta.cross_entropy(whole, labels(target))
    loss.backward()
    equals(loss, 1.25)

    padded = np.concatenate([scores[:1], random.standard_normal((2, 2)), scores[1:]])
    target = np.array([0, -100, -100, 0, 0, 0])
    parts = leaf(padded)
    total = 0.0
    for part in (slice(0, 3), slice(3, 6)):
        part_loss = ta.cross_entropy(parts[part], labels(target[part]), reduction="sum") / 4
        part_loss.backward()
        total += part_loss.item()
    assert total == pytest.approx(1.25, abs=1e-12)
    np.testing.assert_allclose(parts.grad.numpy()[[0, 3, 4, 5]], whole.grad.numpy(), rtol=1e-12)
    equals(parts.grad[1:3], np.zeros((2, 2)))
