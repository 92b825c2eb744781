"""Position encodings: their values, and the properties that depend on the order of tokens."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn import nn
from tinyattn.nn.positions import alibi_slopes, sinusoids


def test_learned_positions_are_added_from_where_the_cache_ends(device, random):
    layer = nn.LearnedPositions(6, 4).to("float64").to(device)
    x = random.normal(size=(2, 3, 4))
    y = layer(ta.tensor(x, device=device), start=2)
    np.testing.assert_allclose(y.numpy(), x + layer.weight.numpy()[2:5])
    with pytest.raises(ValueError, match="7 positions do not fit: expected at most 6"):
        layer(ta.tensor(x, device=device), start=4)


@pytest.mark.parametrize(
    "make", [lambda: nn.LearnedPositions(6, 4), lambda: nn.SinusoidalPositions(4)]
)
def test_given_positions_replace_the_default_ones(make, device, random):
    layer = make().to("float64").to(device)
    x = ta.tensor(random.normal(size=(2, 3, 4)), device=device)
    positions = ta.tensor([[0, 1, 2], [0, 0, 1]], device=device)._data
    y = layer(x, positions=positions).numpy()
    np.testing.assert_allclose(y[0], layer(x).numpy()[0])
    np.testing.assert_allclose(y[1] - x.numpy()[1], (layer(x) - x).numpy()[1][[0, 0, 1]])


def test_sinusoids_follow_the_paper():
    table = sinusoids(50, 6)
    assert table[7, 2] == pytest.approx(np.sin(7 / 10000 ** (2 / 6)))
    assert table[7, 3] == pytest.approx(np.cos(7 / 10000 ** (2 / 6)))
    np.testing.assert_allclose((table**2).sum(axis=1), 3)
    assert sinusoids(3, 5).shape == (3, 5)


def test_sinusoidal_positions_have_no_parameters_and_any_length(device):
    layer = nn.SinusoidalPositions(4)
    assert layer.parameters() == []
    y = layer(ta.zeros((100, 4), device=device, dtype="float64"), start=30)
    np.testing.assert_allclose(y.numpy(), sinusoids(130, 4)[30:])


def test_rotary_scores_depend_on_the_distance_only(device, random):
    rotary = nn.Rotary(6)
    q, k = (np.tile(random.normal(size=6), (9, 1)) for _ in range(2))
    q, k = (rotary(ta.tensor(x, device=device)).numpy() for x in (q, k))
    scores = q @ k.T
    for offset in range(-8, 9):
        diagonal = np.diagonal(scores, offset)
        np.testing.assert_allclose(diagonal, diagonal[0], atol=1e-12)
    assert np.ptp(scores) > 0.1


def test_rotary_counts_from_where_the_cache_ends(device, random):
    rotary = nn.Rotary(4)
    x = ta.tensor(random.normal(size=(2, 90, 4)), device=device)
    whole = rotary(x).numpy()
    np.testing.assert_array_equal(rotary(x[:, 70:], start=70).numpy(), whole[:, 70:])


def test_rotary_refuses_an_odd_head():
    with pytest.raises(ValueError, match="even head_dim, got 5"):
        nn.Rotary(5)


def test_alibi_slopes_are_those_of_the_paper():
    np.testing.assert_allclose(alibi_slopes(8), [2.0**-i for i in range(1, 9)])
    np.testing.assert_allclose(alibi_slopes(16), [2.0 ** (-i / 2) for i in range(1, 17)])
    expected = [2.0**-i for i in range(1, 9)] + [2.0 ** -(i + 0.5) for i in range(4)]
    np.testing.assert_allclose(alibi_slopes(12), expected)


@pytest.mark.parametrize("queries", [5, 2])
def test_alibi_folded_into_queries_and_keys_equals_alibi_added_to_scores(queries, device, random):
    alibi = nn.ALiBi(3)
    q = ta.tensor(random.normal(size=(2, 3, queries, 4)), device=device)
    k = ta.tensor(random.normal(size=(2, 3, 5, 4)), device=device)
    folded_q, folded_k = alibi.fold(q, k, scale=0.5)
    assert np.all(folded_k.numpy()[..., -1] == np.arange(-4, 1))  # small numbers near the last key
    folded = 0.5 * folded_q.numpy() @ folded_k.numpy().swapaxes(-1, -2)
    added = 0.5 * q.numpy() @ k.numpy().swapaxes(-1, -2) + ta.Tensor._wrap(alibi.bias(q, k)).numpy()
    causal = np.tril(np.ones((queries, 5), bool), 5 - queries)
    difference = np.where(causal, folded - added, np.nan)
    # The two differ by one number for each query, which softmax does not see.
    spread = np.nanmax(difference, axis=-1) - np.nanmin(difference, axis=-1)
    assert spread.max() < 1e-12
