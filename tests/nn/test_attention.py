"""MultiHeadAttention: the article's example, every kind, masks, caches, and hooks on scores and weights."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn import nn


def make(device, dtype="float64", **options):
    ta.manual_seed(0)
    return nn.MultiHeadAttention(8, 2, **options).to(dtype).to(device)


@pytest.fixture
def x(device, random):
    return ta.tensor(random.normal(size=(2, 7, 8)), device=device)


def test_the_example_of_three_tokens_in_two_dimensions(device):
    attention = nn.MultiHeadAttention(2, 1, bias=False).to(device)
    for layer in (attention.query, attention.key, attention.value, attention.project):
        layer.weight.data = np.eye(2) if device == "cpu" else ta.eye(2, device=device)
    x = ta.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], device=device)
    output, weights = attention(x, return_weights=True)
    assert weights.shape == (1, 3, 3)
    # The article rounds on the way: e^1.414 / (2 e^0.707 + e^1.414) is 0.5035.
    np.testing.assert_allclose(weights.numpy()[0, 2], [0.248, 0.248, 0.504], atol=6e-4)
    np.testing.assert_allclose(output.numpy()[2], [0.752, 0.752], atol=5e-4)
    np.testing.assert_allclose(attention(x).numpy(), output.numpy(), rtol=1e-6)


def by_hand(attention, x, causal):
    """The formula head by head, in NumPy."""
    x = x.numpy()
    q, k, v = (
        x @ layer.weight.numpy() + layer.bias.numpy()
        for layer in (attention.query, attention.key, attention.value)
    )
    heads = []
    for head in range(2):
        part = slice(4 * head, 4 * head + 4)
        scores = q[..., part] @ k[..., part].swapaxes(-1, -2) / 2
        if causal:
            scores = np.where(np.tril(np.ones(scores.shape, bool)), scores, -np.inf)
        weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
        heads.append(weights @ v[..., part])
    return (
        np.concatenate(heads, axis=-1) @ attention.project.weight.numpy()
        + attention.project.bias.numpy()
    )


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", ["auto", "dense", "flash", "window"])
def test_every_exact_kind_is_the_formula(kind, causal, device, x):
    options = {"window": 100} if kind == "window" else {}
    attention = make(device, causal=causal, kind=kind, **options)
    np.testing.assert_allclose(attention(x).numpy(), by_hand(attention, x, causal), atol=1e-12)


@pytest.mark.parametrize("kind", ["auto", "window"])
@pytest.mark.parametrize("alibi", [False, True])
@pytest.mark.parametrize("causal", [True, False])
def test_returning_the_weights_does_not_change_the_output(kind, alibi, causal, device, x):
    if kind == "window" and alibi and not causal:
        pytest.skip("the window's blocks take no bias")
    options = {"window": 3, "global_tokens": 1} if kind == "window" else {}
    alibi = nn.ALiBi(2) if alibi else None
    attention = make(device, causal=causal, kind=kind, alibi=alibi, qk_norm=True, **options)
    plain = attention(x).numpy()
    output, weights = attention(x, return_weights=True)
    np.testing.assert_allclose(output.numpy(), plain, atol=1e-12)
    np.testing.assert_allclose(weights.numpy().sum(axis=-1), 1, atol=1e-12)
    if kind == "window":
        assert (weights.numpy() == 0).any()


def test_a_hook_on_the_weights_can_replace_them(device, x):
    attention = make(device)
    handle = attention.weights.register_forward_hook(lambda module, args, weights: weights * 0)
    assert np.array_equal(
        attention(x).numpy(), np.broadcast_to(attention.project.bias.numpy(), x.shape)
    )
    handle.remove()
    assert not np.array_equal(attention(x).numpy()[0, 0], attention.project.bias.numpy())


def test_a_mask_hides_keys_and_a_query_without_keys_gets_the_bias_of_the_projection(device, x):
    attention = make(device)
    mask = np.ones((2, 1, 1, 7), bool)
    mask[0, ..., 4:] = False
    mask[1] = False
    mask = ta.tensor(mask, device=device)
    y = attention(x, mask=mask).numpy()
    np.testing.assert_allclose(y[0, :4], attention(x[:1, :4]).numpy()[0], atol=1e-12)
    np.testing.assert_array_equal(y[1], np.broadcast_to(attention.project.bias.numpy(), (7, 8)))
    shown, weights = attention(x, mask=mask, return_weights=True)
    np.testing.assert_allclose(shown.numpy(), y, atol=1e-12)
    assert np.all(weights.numpy()[1] == 0)


@pytest.mark.parametrize("kind", ["auto", "dense", "flash", "window", "linear"])
@pytest.mark.parametrize("position", ["rotary", "alibi", None])
@pytest.mark.parametrize("chunks", [(4, 3), (1, 1, 5), (6, 1)])
def test_a_cache_gives_what_the_whole_sequence_gives(kind, position, chunks, device, x):
    if (kind, position) == ("linear", "alibi"):
        pytest.skip("linear attention has no scores to shift")
    options = {"window": 3} if kind == "window" else {}
    positions = {"rotary": nn.Rotary(4), "alibi": nn.ALiBi(2)}
    options.update({position: positions[position]} if position else {})
    attention = make(device, causal=True, kind=kind, **options)
    whole = attention(x).numpy()
    cache, start, parts = nn.KeyValueCache(), 0, []
    for length in chunks:
        parts.append(attention(x[:, start : start + length], cache=cache).numpy())
        start += length
        assert cache.length == start
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, atol=1e-10)


def test_the_cache_of_linear_attention_does_not_grow(device, x):
    attention = make(device, causal=True, kind="linear")
    cache = nn.KeyValueCache()
    sizes = []
    for t in range(7):
        attention(x[:, t : t + 1], cache=cache)
        sizes.append(cache.sums._sums.shape)
    assert set(sizes) == {(2, 2, 4, 5)} and cache.keys is None and cache.length == 7
    with pytest.raises(ValueError, match="pass padding_mask from the first tokens on"):
        attention(x[:, :1], cache=cache, mask=ta.tensor([[[[True] * 8]]], device=device))


def test_gradients_flow_through_the_cache(device, x):
    attention = make(device, causal=True)
    cotangent = ta.tensor(np.random.default_rng(1).normal(size=x.shape), device=device)

    def gradients(*outputs):
        attention.zero_grad()
        ta.concatenate(outputs, axis=1).backward(cotangent)
        return [parameter.grad.numpy() for parameter in attention.parameters()]

    expected = gradients(attention(x))
    cache = nn.KeyValueCache()
    found = gradients(attention(x[:, :3], cache=cache), attention(x[:, 3:], cache=cache))
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_without_positions_a_permutation_of_the_tokens_permutes_the_output(device, x, random):
    attention = make(device)
    order = random.permutation(7)
    np.testing.assert_allclose(
        attention(x[:, order]).numpy(), attention(x).numpy()[:, order], atol=1e-12
    )
    turned = make(device, rotary=nn.Rotary(4))
    assert np.abs(turned(x[:, order]).numpy() - turned(x).numpy()[:, order]).max() > 1e-3


def test_normalized_queries_do_not_grow_with_the_input(device, x):
    attention = make(device, qk_norm=True, bias=False)
    _, weights = attention(x, return_weights=True)
    _, scaled = attention(x * 100, return_weights=True)
    np.testing.assert_allclose(weights.numpy(), scaled.numpy(), atol=1e-4)


def test_dropout_of_weights_acts_in_training_only(device, x):
    attention = make(device, dropout=0.5)
    ta.manual_seed(1)
    assert not np.array_equal(attention(x).numpy(), attention(x).numpy())
    attention.eval()
    assert np.array_equal(attention(x).numpy(), attention(x).numpy())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"heads": 3}, "8 cannot be divided among 3 heads"),
        ({"kind": "fast"}, "'fast'"),
        ({"kind": "linear", "alibi": nn.ALiBi(2)}, "does not support ALiBi"),
        ({"kind": "window", "dropout": 0.1}, "dropout must be 0"),
    ],
)
def test_invalid_options_raise_in_the_constructor(options, words):
    with pytest.raises(ValueError, match=words):
        nn.MultiHeadAttention(8, **{"heads": 2, **options})


def test_linear_attention_has_no_weights_to_show(x, device):
    with pytest.raises(ValueError, match="no scores and weights"):
        make(device, kind="linear")(x, return_weights=True)


def test_one_token_has_the_weight_1_and_queries_and_keys_no_gradient(device):
    attention = make(device)
    attention(ta.ones((1, 1, 8), device=device, dtype="float64")).sum().backward()
    assert np.all(attention.query.weight.grad.numpy() == 0)
    assert np.all(attention.key.weight.grad.numpy() == 0)
    assert np.abs(attention.value.weight.grad.numpy()).max() > 0


def test_an_empty_batch_keeps_its_shape(device):
    attention = make(device, causal=True)
    assert attention(ta.zeros((0, 5, 8), device=device, dtype="float64")).shape == (0, 5, 8)
