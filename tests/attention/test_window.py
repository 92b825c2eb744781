"""Window attention equals dense attention under the equivalent mask."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.attention import window as window_module

from .equality import assert_equal_attention, draw, error_against_float64


def window_mask(queries, keys, window, global_tokens, causal):
    """The mask by the definition, without blocks."""
    i = np.arange(keys - queries, keys)[:, None]
    j = np.arange(keys)
    if causal:
        return ((j > i - window) | (j < global_tokens)) & (j <= i)
    after = (window - 1) // 2
    near = (j - i <= after) & (i - j < window - after)
    return near | (j < global_tokens) | (i < global_tokens)


def by_window(**options):
    return lambda q, k, v: ta.scaled_dot_product_attention(q, k, v, kind="window", **options)


def by_mask(mask, device):
    mask = ta.tensor(mask, device=device)
    return lambda q, k, v: ta.scaled_dot_product_attention(q, k, v, kind="dense", mask=mask)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("length", "window", "global_tokens"),
    [
        (1, 1, 0),
        (2, 1, 0),
        (7, 1, 2),
        (7, 2, 0),
        (13, 3, 1),
        (13, 4, 3),
        (16, 5, 0),
        (9, 20, 2),
        (6, 3, 9),
    ],
)
def test_window_equals_dense_under_its_mask(length, window, global_tokens, causal, random, device):
    mask = window_mask(length, length, window, global_tokens, causal)
    options = {"window": window, "global_tokens": global_tokens, "causal": causal}
    arrays = draw(random, length, value_dim=3)
    assert_equal_attention(by_window(**options), by_mask(mask, device), arrays, random, device)


@pytest.mark.parametrize("causal", [False, True])
def test_padding_hides_keys_and_may_leave_dead_rows(causal, random, device):
    arrays = draw(random, 11)
    padding = random.random((2, 1, 1, 11)) < 0.5
    padding[0] = False
    mask = window_mask(11, 11, 3, 2, causal) & padding
    options = {"window": 3, "global_tokens": 2, "causal": causal}
    function = by_window(mask=ta.tensor(padding, device=device), **options)
    assert_equal_attention(function, by_mask(mask, device), arrays, random, device)


@pytest.mark.parametrize(("queries", "keys"), [(1, 12), (3, 12), (2, 3)])
def test_the_last_queries_of_a_cache_see_what_they_would_in_the_whole(
    queries, keys, random, device
):
    mask = window_mask(keys, keys, 4, 2, causal=True)[-queries:]
    function = by_window(window=4, global_tokens=2, causal=True)
    assert_equal_attention(
        function, by_mask(mask, device), draw(random, queries, keys), random, device
    )


@pytest.mark.parametrize("window", [1, 2, 3, 4, 5])
def test_away_from_the_ends_a_query_sees_as_many_keys_as_the_window_is_long(window):
    _, weights = ta.scaled_dot_product_attention(
        *[ta.zeros((15, 1))] * 3, kind="window", window=window, return_weights=True
    )
    (seen,) = np.nonzero(weights.numpy()[7])
    after = (window - 1) // 2
    assert seen.tolist() == list(range(7 + after - window + 1, 7 + after + 1))


@pytest.mark.parametrize("causal", [False, True])
def test_infinite_scores_share_the_weight_as_in_dense_attention(causal, device):
    values = {"q": np.ones((13, 1)), "k": np.zeros((13, 1)), "v": np.arange(13.0)[:, None]}
    values["k"][0] = np.inf
    results = []
    for options in ({"kind": "window", "window": 4}, {"kind": "dense"}):
        x = {name: ta.tensor(a, requires_grad=True, device=device) for name, a in values.items()}
        with np.errstate(invalid="ignore"):
            out = ta.scaled_dot_product_attention(**x, causal=causal, **options)
            out.backward(ta.tensor(np.ones((13, 1)), device=device))
        results.append((out.numpy()[:2], x["v"].grad.numpy()))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    assert np.isfinite(results[0][1]).all()


@pytest.mark.parametrize("causal", [False, True])
def test_an_infinite_key_next_to_the_padding_of_the_last_block_leaves_the_gradients_finite(
    causal, device
):
    q, k, v = np.ones((13, 1)), np.zeros((13, 1)), np.arange(13.0)[:, None]
    k[-1] = np.inf
    q, k = ta.tensor(q, device=device), ta.tensor(k, device=device)
    v = ta.tensor(v, requires_grad=True, device=device)
    with np.errstate(invalid="ignore"):
        out = by_window(window=4, causal=causal)(q, k, v)
        out.backward(ta.tensor(np.ones((13, 1)), device=device))
    assert out.numpy()[-1] == 12
    assert v.grad.numpy()[-1] == (1 if causal else 2)
    assert np.isfinite(v.grad.numpy()).all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("huge", [4000, 10**20])
def test_a_window_longer_than_the_sequence_costs_no_more_than_the_sequence(
    huge, causal, random, device, monkeypatch
):
    sizes = []
    rule = window_module.sees

    def observed(query, key, *args, **options):
        sizes.append(np.broadcast_shapes(query.shape, key.shape))
        return rule(query, key, *args, **options)

    monkeypatch.setattr(window_module, "sees", observed)
    arrays = draw(random, 16)
    function = by_window(window=huge, global_tokens=huge, causal=causal)
    expected = by_mask(np.tril(np.ones((16, 16), bool)) | (not causal), device)
    assert_equal_attention(function, expected, arrays, random, device)
    function(
        *(
            ta.tensor(a[..., -3:, :] if i == 0 and causal else a, device=device)
            for i, a in enumerate(arrays)
        )
    )
    assert max(np.prod(size) for size in sizes) <= 16 * 16


def test_a_global_key_inside_the_window_is_counted_once():
    zeros = ta.zeros((1, 3, 1))
    values = ta.tensor([[[1.0], [2.0], [6.0]]])
    out = ta.scaled_dot_product_attention(
        zeros, zeros, values, kind="window", causal=True, window=3, global_tokens=1
    )
    assert out.tolist() == [[[1.0], [1.5], [3.0]]]


def test_float32_is_at_most_twice_as_inexact_as_dense(random, device):
    arrays = draw(random, 200, head_dim=16, leading=(2,), dtype=np.float32)
    mask = window_mask(200, 200, 16, 2, causal=True)
    function = by_window(window=16, global_tokens=2, causal=True)
    ours, theirs = error_against_float64(function, by_mask(mask, device), arrays, device)
    for own, other in zip(ours, theirs, strict=True):
        assert own <= 2 * other + 1e-7


@pytest.mark.parametrize("causal", [False, True])
def test_window_is_differentiable_twice(causal, random, device):
    arrays = [ta.tensor(a, requires_grad=True, device=device) for a in draw(random, 5, leading=())]
    assert ta.gradcheck(by_window(window=2, global_tokens=1, causal=causal), arrays, order=2)


def test_errors_say_what_was_given(random):
    q, k, v = (ta.tensor(a) for a in draw(random, 4))
    with pytest.raises(ValueError, match="window=0"):
        by_window(window=0)(q, k, v)
    with pytest.raises(ValueError, match="same for all queries"):
        by_window(mask=np.ones((4, 4), dtype=bool))(q, k, v)
    with pytest.raises(ValueError, match="2 queries and 4 keys"):
        by_window()(q[..., :2, :], k, v)
