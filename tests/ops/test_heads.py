"""Splitting vectors into heads and joining them."""

import numpy as np
import pytest

import tinyattn as ta
from tests.gradient import check_gradient


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_a_head_is_a_part_of_each_tokens_vector(device, random, lead):
    x = random.standard_normal((*lead, 5, 12))
    heads = ta.split_heads(ta.tensor(x, device=device), 3)
    assert heads.shape == (*lead, 3, 5, 4)
    for head in range(3):
        part = x[..., 4 * head : 4 * (head + 1)]
        np.testing.assert_array_equal(heads.numpy()[..., head, :, :], part)
    np.testing.assert_array_equal(ta.join_heads(heads).numpy(), x)


def test_gradients(device, random):
    check_gradient(
        lambda x: ta.split_heads(x, 2) ** 2, random.standard_normal((2, 3, 4)), device=device
    )
    check_gradient(
        lambda x: ta.join_heads(x) ** 2, random.standard_normal((2, 2, 3, 2)), device=device
    )


@pytest.mark.parametrize("heads", [0, 3, -1])
def test_a_number_of_heads_that_does_not_divide_the_dimension_is_an_error(device, heads):
    with pytest.raises(ValueError, match=rf"shape \(2, 4\) into {heads} heads"):
        ta.split_heads(ta.zeros((2, 4), device=device), heads)


def test_missing_axes_are_an_error(device):
    with pytest.raises(ValueError, match=r"shape \(4,\) into 2 heads"):
        ta.split_heads(ta.zeros((4,), device=device), 2)
    with pytest.raises(ValueError, match=r"heads of shape \(2, 4\)"):
        ta.join_heads(ta.zeros((2, 4), device=device))
