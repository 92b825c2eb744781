"""Flash attention equals dense attention: under every mask, at odd sizes, with dropout, on every backend."""

import numpy as np
import pytest

import tinyattn as ta

from .equality import assert_equal_attention, draw, error_against_float64, largest


def flash(**options):
    return lambda q, k, v: ta.scaled_dot_product_attention(q, k, v, kind="flash", **options)


def dense(**options):
    return lambda q, k, v: ta.scaled_dot_product_attention(q, k, v, kind="dense", **options)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 7), (7, 7), (5, 9), (9, 5), (65, 130)])
def test_flash_equals_dense_at_every_pair_of_lengths(queries, keys, causal, random, device):
    arrays = draw(random, queries, keys, value_dim=3)
    assert_equal_attention(flash(causal=causal), dense(causal=causal), arrays, random, device)


@pytest.mark.parametrize(
    "shape", [(2, 3, 9, 11), (1, 1, 9, 11), (2, 1, 1, 11), (9, 11), (3, 1, 11)]
)
def test_flash_equals_dense_under_masks_with_dead_rows(shape, random, device):
    arrays = draw(random, 9, 11)
    mask = random.random(shape) < 0.5
    mask[..., 0, :] = False if shape[-2] > 1 else mask[..., 0, :]
    mask = ta.tensor(mask, device=device)
    for causal in (False, True):
        options = {"mask": mask, "causal": causal}
        assert_equal_attention(flash(**options), dense(**options), arrays, random, device)


def test_a_query_without_keys_gives_zero_and_sends_back_zero(random, device):
    q, k, v = (ta.tensor(a, requires_grad=True, device=device) for a in draw(random, 4))
    mask = np.ones((4, 4), dtype=bool)
    mask[2] = False
    out = ta.scaled_dot_product_attention(
        q, k, v, kind="flash", mask=ta.tensor(mask, device=device)
    )
    out.backward(ta.tensor(random.standard_normal(out.shape), device=device))
    assert not out.numpy()[..., 2, :].any()
    assert not q.grad.numpy()[..., 2, :].any()
    assert np.isfinite(k.grad.numpy()).all() and np.isfinite(v.grad.numpy()).all()


@pytest.mark.parametrize("causal", [False, True])
def test_dropout_drops_the_same_weights_forward_and_backward(causal, random, device):
    """Compares with the gradients of the rule, which draws the same dropout mask from the same key."""
    arrays = draw(random, 13)
    attention = ta.autograd.PRIMITIVES["attention"]
    options = {"causal": causal, "scale": 0.4, "dropout_p": 0.3, "dropout_key": 12345678901234567}

    def by_rule(q, k, v):
        with ta.reference():
            return attention(q, k, v, None, **options)

    assert_equal_attention(
        lambda q, k, v: attention(q, k, v, None, **options), by_rule, arrays, random, device
    )


def test_dropout_keeps_the_expected_share(random):
    q, k, _ = draw(random, 64, leading=(4,))
    out = ta.scaled_dot_product_attention(
        ta.tensor(q * 0),
        ta.tensor(k),
        ta.ones((4, 64, 1), dtype=np.float64),
        kind="flash",
        dropout_p=0.25,
    ).numpy()
    assert abs(out.mean() - 1) < 0.03 and out.std() > 0.01


@pytest.mark.parametrize("causal", [False, True])
def test_float32_is_at_most_twice_as_inexact_as_dense(causal, random, device):
    arrays = draw(random, 200, head_dim=16, leading=(2,), dtype=np.float32)
    ours, theirs = error_against_float64(flash(causal=causal), dense(causal=causal), arrays, device)
    for own, other in zip(ours, theirs, strict=True):
        assert own <= 2 * other + 1e-7


@pytest.mark.parametrize("causal", [False, True])
def test_its_largest_float32_error_is_at_most_twice_that_of_dense_in_the_middle_draw(
    causal, random, device
):
    ratios = []
    for _ in range(7):
        arrays = draw(random, 200, head_dim=16, leading=(2,), dtype=np.float32)
        ours, theirs = error_against_float64(
            flash(causal=causal), dense(causal=causal), arrays, device, largest
        )
        ratios.append(np.divide(ours, theirs))
    assert (np.median(ratios, axis=0) <= 2).all()


def test_flash_is_differentiable_twice(random, device):
    arrays = [ta.tensor(a, requires_grad=True, device=device) for a in draw(random, 5, leading=())]
    assert ta.gradcheck(flash(causal=True), arrays, order=2)
