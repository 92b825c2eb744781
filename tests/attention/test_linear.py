"""Linear attention equals its own quadratic form, and its decoding in constant memory equals the parallel form."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.attention.linear import LinearState, elu_plus_one

from .equality import assert_equal_attention, draw, error_against_float64


def linear(**options):
    return lambda q, k, v: ta.scaled_dot_product_attention(q, k, v, kind="linear", **options)


def quadratic(mask, device, feature_map=elu_plus_one):
    """The n by n weights phi(q_i) . phi(k_j), masked and divided by their row sums."""
    mask = ta.tensor(mask, device=device)

    def attend(q, k, v):
        weights = ta.matmul(feature_map(q), ta.swapaxes(feature_map(k), -1, -2))
        weights = ta.where(mask, weights, 0.0)
        total = ta.sum(weights, axis=-1, keepdims=True)
        return ta.matmul(weights / ta.where(total == 0, 1.0, total), v)

    return attend


def causal(queries, keys):
    return np.arange(keys) <= np.arange(keys - queries, keys)[:, None]


@pytest.mark.parametrize("chunk", [1, 4, 64])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (7, 7), (8, 8), (3, 9), (9, 3)])
def test_causal_linear_equals_its_quadratic_form(queries, keys, chunk, random, device):
    function = linear(causal=True, chunk=chunk)
    reference = quadratic(causal(queries, keys), device)
    arrays = draw(random, queries, keys, value_dim=3)
    assert_equal_attention(function, reference, arrays, random, device)


def test_bidirectional_linear_equals_its_quadratic_form(random, device):
    arrays = draw(random, 5, 8)
    reference = quadratic(np.ones((5, 8), dtype=bool), device)
    assert_equal_attention(linear(), reference, arrays, random, device)


@pytest.mark.parametrize("is_causal", [False, True])
def test_padding_hides_keys_and_may_leave_dead_rows(is_causal, random, device):
    padding = random.random((2, 1, 1, 7)) < 0.5
    padding[0] = False
    mask = padding & (causal(7, 7) | (not is_causal))
    function = linear(causal=is_causal, mask=ta.tensor(padding, device=device))
    assert_equal_attention(function, quadratic(mask, device), draw(random, 7), random, device)


def test_another_feature_map_can_be_given(random, device):
    reference = quadratic(causal(6, 6), device, feature_map=ta.exp)
    function = linear(causal=True, feature_map=ta.exp)
    assert_equal_attention(function, reference, draw(random, 6), random, device)


def test_decoding_with_a_state_equals_the_parallel_form(random, device):
    q, k, v = (ta.tensor(a, device=device) for a in draw(random, 9))
    whole = linear(causal=True)(q, k, v).numpy()
    state = LinearState()
    start = 0
    for length in (4, 1, 1, 3):
        piece = (..., slice(start, start + length), slice(None))
        part = state.attend(q[piece], k[piece], v[piece]).numpy()
        np.testing.assert_allclose(part, whole[piece], atol=1e-12)
        start += length


def test_float32_is_at_most_twice_as_inexact_as_the_quadratic_form(random, device):
    arrays = draw(random, 200, head_dim=16, leading=(2,), dtype=np.float32)
    reference = quadratic(causal(200, 200), device)
    ours, theirs = error_against_float64(linear(causal=True), reference, arrays, device)
    for own, other in zip(ours, theirs, strict=True):
        assert own <= 2 * other + 1e-7


def test_linear_is_differentiable_twice(random, device):
    arrays = [ta.tensor(a, requires_grad=True, device=device) for a in draw(random, 5, leading=())]
    assert ta.gradcheck(linear(causal=True, chunk=2), arrays, order=2)


def test_a_mask_that_differs_between_queries_is_refused(random):
    q, k, v = (ta.tensor(a) for a in draw(random, 4))
    with pytest.raises(ValueError, match=r"same for all queries.*\(4, 4\)"):
        linear(mask=np.ones((4, 4), dtype=bool))(q, k, v)
