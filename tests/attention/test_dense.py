"""Dense attention: the primitive with its hand-written backward, and the composed form."""

import math

import numpy as np
import pytest

import tinyattn as ta
from tests.gradient import check_gradient
from tinyattn.attention.dense import attention, dense_attention
from tinyattn.backend import Random, use_random


def by_hand(q, k, v, mask=None, scale=None):
    """Attention in loops over queries and keys."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    out = np.zeros((len(q), v.shape[-1]))
    for i, query in enumerate(q):
        seen = [j for j in range(len(k)) if mask is None or mask[i, j]]
        weights = np.array([math.exp(scale * query @ k[j]) for j in seen])
        for weight, j in zip(weights, seen):
            out[i] += weight / weights.sum() * v[j]
    return out


@pytest.fixture
def qkv(random):
    """Queries (2, 3, 2), keys (2, 4, 2) and values (2, 4, 3) on the host."""
    return tuple(random.standard_normal((2, *shape)) for shape in ((3, 2), (4, 2), (4, 3)))


KINDS = pytest.mark.parametrize("kind", ["auto", "dense"])


@KINDS
@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("masked", [False, True])
def test_values_are_those_of_the_definition(device, random, qkv, kind, scale, masked):
    q, k, v = qkv
    mask = random.random((2, 3, 4)) < 0.6
    out = ta.scaled_dot_product_attention(
        *(ta.tensor(a, device=device) for a in qkv),
        mask=ta.tensor(mask, device=device) if masked else None,
        scale=scale,
        kind=kind,
    )
    expected = [
        by_hand(q[head], k[head], v[head], mask[head] if masked else None, scale) for head in (0, 1)
    ]
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-12, atol=1e-14)


@KINDS
@pytest.mark.parametrize(("queries", "keys"), [(3, 5), (4, 4), (5, 3), (1, 4)])
def test_a_causal_query_sees_the_keys_up_to_its_own_counted_from_the_end(
    device, random, kind, queries, keys
):
    q, k, v = (random.standard_normal((n, 2)) for n in (queries, keys, keys))
    visible = np.tril(np.ones((queries, keys), bool), keys - queries)
    out = ta.scaled_dot_product_attention(
        *(ta.tensor(a, device=device) for a in (q, k, v)), causal=True, kind=kind
    )
    np.testing.assert_allclose(out.numpy(), by_hand(q, k, v, visible), rtol=1e-12, atol=1e-14)


@KINDS
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_gradients_agree_with_differences_to_second_order(
    device, random, qkv, kind, causal, masked
):
    mask = ta.tensor(random.random((3, 4)) < 0.6, device=device) if masked else None
    check_gradient(
        lambda q, k, v: ta.scaled_dot_product_attention(
            q, k, v, mask=mask, causal=causal, kind=kind
        ),
        *qkv,
        device=device,
    )


def test_gradients_with_dropout_and_a_scale_agree_with_differences(device, qkv):
    check_gradient(
        lambda q, k, v: attention(
            q, k, v, None, causal=True, scale=0.7, dropout_p=0.4, dropout_key=3
        ),
        *qkv,
        device=device,
    )


def test_gradients_of_broadcast_leading_axes_agree_with_differences(device, random, qkv):
    q, k, v = qkv
    mask = ta.tensor(random.random((2, 3, 4)) < 0.7, device=device)
    for arrays in ((q[0], k, v), (q, k[:1], v), (q[0], k[0], v)):
        check_gradient(
            lambda q, k, v: attention(q, k, v, mask, causal=False, scale=0.5),
            *arrays,
            device=device,
        )
        check_gradient(
            lambda q, k, v: attention(
                q, k, v, None, causal=True, scale=1.0, dropout_p=0.5, dropout_key=1
            ),
            *arrays,
            device=device,
        )


def test_the_rule_the_kernel_and_the_composed_form_drop_the_same_weights(device, random):
    shapes = ((3, 1, 6, 4), (2, 7, 4), (3, 2, 7, 4))
    arrays = [random.standard_normal(shape) for shape in shapes]

    def results(kind):
        q, k, v = leaves = [ta.tensor(a, requires_grad=True, device=device) for a in arrays]
        with use_random(Random(11)):
            out = ta.scaled_dot_product_attention(q, k, v, causal=True, dropout_p=0.5, kind=kind)
        g = ta.tensor(np.random.default_rng(1).standard_normal(out.shape), device=device)
        return [out.numpy()] + [x.numpy() for x in ta.grad(out, leaves, grad_outputs=g)]

    fast = results("auto")
    with ta.reference():
        rule = results("auto")
    for other in (rule, results("dense")):
        for a, b in zip(fast, other):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_dropped_weights_are_about_p_of_all_and_the_rest_is_scaled(device):
    q = ta.tensor(np.zeros((40, 2)), device=device)
    v = ta.tensor(np.eye(40), device=device)  # the output is the weights
    with use_random(Random(2)):
        weights = ta.scaled_dot_product_attention(q, q, v, dropout_p=0.25).numpy() * 40
    assert (weights == 0).mean() == pytest.approx(0.25, abs=0.04)
    np.testing.assert_allclose(weights[weights != 0], 1 / 0.75)
    everything = ta.scaled_dot_product_attention(q, q, v, dropout_p=1.0)
    assert not everything.numpy().any()


@KINDS
def test_a_query_without_keys_gives_zeros_and_takes_no_part_in_any_gradient(
    device, random, qkv, kind
):
    mask = np.ones((3, 4), bool)
    mask[1] = False
    q, k, v = leaves = [ta.tensor(a, requires_grad=True, device=device) for a in qkv]
    out = ta.scaled_dot_product_attention(q, k, v, mask=ta.tensor(mask, device=device), kind=kind)
    assert not out.numpy()[:, 1].any()
    assert out.numpy()[:, [0, 2]].all()
    g = random.standard_normal(out.shape)
    gradients = [x.numpy() for x in ta.grad(out, leaves, grad_outputs=ta.tensor(g, device=device))]
    assert not gradients[0][:, 1].any()

    # Without that query the keys and values get the same.
    short = [ta.tensor(a, requires_grad=True, device=device) for a in (qkv[0][:, [0, 2]], *qkv[1:])]
    out = ta.scaled_dot_product_attention(*short, kind=kind)
    expected = ta.grad(out, short, grad_outputs=ta.tensor(g[:, [0, 2]], device=device))
    np.testing.assert_allclose(gradients[1], expected[1].numpy(), rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(gradients[2], expected[2].numpy(), rtol=1e-11, atol=1e-14)


@KINDS
def test_a_key_that_a_query_may_not_see_cannot_reach_it(device, qkv, kind):
    q, k, v = (a.copy() for a in qkv)
    clean = ta.scaled_dot_product_attention(
        *(ta.tensor(a, device=device) for a in (q, k, v)), causal=True, kind=kind
    ).numpy()
    k[:, -1] = 1e30
    changed = ta.scaled_dot_product_attention(
        *(ta.tensor(a, device=device) for a in (q, k, v)), causal=True, kind=kind
    ).numpy()
    # Not bit for bit: a kernel may sum in another way where the scores are large.
    np.testing.assert_allclose(changed[:, :-1], clean[:, :-1], rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@KINDS
def test_the_dtype_is_kept_in_both_directions(device, random, kind, dtype):
    leaves = [
        ta.tensor(
            random.standard_normal((2, 3, 4)).astype(dtype), requires_grad=True, device=device
        )
        for _ in range(3)
    ]
    out = ta.scaled_dot_product_attention(*leaves, causal=True, kind=kind)
    out.sum().backward()
    assert out.dtype == dtype
    assert {leaf.grad.dtype.name for leaf in leaves} == {dtype}


def test_the_weights_can_be_seen_and_so_can_their_gradient(device, random, qkv):
    q, k, v = (ta.tensor(a, requires_grad=True, device=device) for a in qkv)
    out, weights = ta.scaled_dot_product_attention(q, k, v, causal=True, return_weights=True)
    np.testing.assert_allclose(weights.numpy().sum(axis=-1), 1, rtol=1e-12)
    assert not weights.numpy()[:, 0, 2:].any()
    np.testing.assert_allclose((weights.numpy() @ qkv[2]), out.numpy(), rtol=1e-12)
    weights.retain_grad()
    g = random.standard_normal(out.shape)
    out.backward(ta.tensor(g, device=device))
    np.testing.assert_allclose(weights.grad.numpy(), g @ qkv[2].swapaxes(-1, -2), rtol=1e-12)


def test_the_weights_that_are_shown_are_those_before_dropout(device, qkv):
    q, k, v = (ta.tensor(a, device=device) for a in qkv)
    _, weights = dense_attention(q, k, v, dropout_p=0.5)
    np.testing.assert_allclose(weights.numpy().sum(axis=-1), 1, rtol=1e-12)


def test_without_leading_axes_and_with_many(device, random):
    x = random.standard_normal((2, 2, 2, 3, 4))
    whole = ta.scaled_dot_product_attention(*[ta.tensor(x, device=device)] * 3, causal=True)
    one = ta.scaled_dot_product_attention(*[ta.tensor(x[1, 0, 1], device=device)] * 3, causal=True)
    np.testing.assert_allclose(whole.numpy()[1, 0, 1], one.numpy(), rtol=1e-12)
