"""Dropout."""

import numpy as np
import pytest

import tinyattn as ta
from tests.gradient import check_gradient
from tinyattn.backend import Random, use_random
from tinyattn.ops.dropout import dropout_by_key


@pytest.fixture
def ones(device):
    return lambda *shape: ta.tensor(np.ones(shape), requires_grad=True, device=device)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_elements_are_dropped_with_probability_p_and_the_mean_is_kept(ones, p):
    with use_random(Random(1)):
        y = ta.dropout(ones(200, 100), p).numpy()
    assert (y == 0).mean() == pytest.approx(p, abs=0.015)
    np.testing.assert_allclose(y[y != 0], 1 / (1 - p))
    columns_kept = (y != 0).mean(axis=0)
    assert columns_kept.std() < 3 * np.sqrt(p * (1 - p) / 200)  # no pattern along an axis


def test_the_gradient_passes_where_the_value_did(device, random, ones):
    x = ones(5, 6)
    g = ta.tensor(random.standard_normal((5, 6)), device=device)
    y = ta.dropout(x, 0.4)
    y.backward(g)
    np.testing.assert_allclose(x.grad.numpy(), g.numpy() * y.numpy(), rtol=1e-12)


def test_gradients_agree_with_differences_to_second_order(device, random):
    x = random.standard_normal((3, 5))
    check_gradient(lambda x: dropout_by_key(x * x, p=0.3, key=7), x, device=device)


def test_the_mask_is_the_same_on_every_device_and_again_from_the_same_seed(device):
    masks = []
    for place in (device, "cpu", device):
        with use_random(Random(5)):
            masks.append(ta.dropout(ta.tensor(np.ones(64), device=place), 0.5).numpy())
    np.testing.assert_array_equal(masks[0], masks[1])
    np.testing.assert_array_equal(masks[0], masks[2])


def test_each_call_draws_another_mask(ones):
    x = ones(64)
    assert (ta.dropout(x, 0.5).numpy() != ta.dropout(x, 0.5).numpy()).any()


def test_in_eval_mode_nothing_is_dropped_and_no_random_number_drawn(ones):
    x = ones(3)
    with use_random(Random(0)) as stream:
        before = stream.state
        assert ta.dropout(x, 0.5, training=False) is x
        assert ta.dropout(x, 0.0) is x
        assert stream.state == before


def test_everything_dropped_is_zero_with_zero_gradient(ones):
    x = ones(3, 2)
    y = ta.dropout(x * x, p=1)
    y.sum().backward()
    assert not y.numpy().any()
    assert not x.grad.numpy().any()


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
@pytest.mark.parametrize("training", [True, False])
def test_p_must_be_a_probability(ones, p, training):
    with pytest.raises(ValueError, match=f"p={p}"):
        ta.dropout(ones(2), p, training=training)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_dtype_is_kept_in_both_directions(device, dtype):
    x = ta.tensor(np.ones(8, dtype), requires_grad=True, device=device)
    y = ta.dropout(x, 0.5)
    y.sum().backward()
    assert y.dtype == x.grad.dtype == dtype


def test_a_dropped_infinity_becomes_zero(device):
    x = ta.tensor(np.full(64, np.inf), device=device)
    assert set(ta.dropout(x, 0.5).tolist()) == {0.0, np.inf}
