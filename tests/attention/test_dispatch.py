"""The public attention function: argument validation and dispatch to registered kinds."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.attention import AttentionKind, Option, attention_kinds, kinds, register_kind


@pytest.fixture
def tensor(device):
    return lambda *shape: ta.tensor(np.ones(shape), device=device)


@pytest.fixture
def registered():
    """Register a kind of attention for the length of a test."""
    before = dict(kinds._REGISTRY)
    yield register_kind
    kinds._REGISTRY.clear()
    kinds._REGISTRY.update(before)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((3,), (3, 2), (3, 2)), "at least two axes"),
        (((3, 4), (5, 2), (5, 2)), r"\(3, 4\).*\(5, 2\).*same head_dim"),
        (((3, 2), (5, 2), (4, 2)), r"\(5, 2\).*\(4, 2\).*as many keys as values"),
        (((2, 3, 2), (3, 5, 2), (5, 2)), "leading axes"),
        (((3, 2), (0, 2), (0, 2)), "at least 1"),
        (((3, 0), (2, 0), (2, 1)), "at least 1"),
    ],
)
def test_shapes_that_do_not_fit_are_named(tensor, shapes, message):
    with pytest.raises(ValueError, match=message):
        ta.scaled_dot_product_attention(*(tensor(*shape) for shape in shapes))


@pytest.mark.parametrize("shape", [(3, 4), (2, 5), (7,), (2, 2, 3, 5)])
def test_a_mask_that_does_not_fit_is_named(tensor, device, shape):
    mask = ta.tensor(np.ones(shape, bool), device=device)
    with pytest.raises(ValueError, match=r"mask of shape.*\(3, 3, 5\)"):
        ta.scaled_dot_product_attention(
            tensor(3, 3, 2), tensor(3, 5, 2), tensor(3, 5, 2), mask=mask
        )


@pytest.mark.parametrize("dtype", ["int64", "float32", "uint8"])
def test_a_mask_that_is_not_boolean_is_refused(tensor, device, dtype):
    q = tensor(3, 2)
    mask = ta.tensor(np.ones((3, 3), dtype), device=device)
    with pytest.raises(TypeError, match=rf"{dtype}.*True = may attend"):
        ta.scaled_dot_product_attention(q, q, q, mask=mask)


def test_a_mask_may_be_a_tensor_an_array_of_the_device_or_a_list(random, device):
    q, k, v = (ta.tensor(random.standard_normal((2, 2)), device=device) for _ in range(3))
    mask = ta.tensor(np.array([[True, False], [True, True]]), device=device)
    results = [
        ta.scaled_dot_product_attention(q, k, v, mask=form).numpy()
        for form in (mask, mask._data, [[True, False], [True, True]])
    ]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    np.testing.assert_allclose(results[0][0], v.numpy()[0])


def test_a_mask_of_the_host_is_not_moved_silently():
    q = ta.tensor(np.ones((2, 2)), device="strict")
    with pytest.raises(TypeError, match="moved silently"):
        ta.scaled_dot_product_attention(q, q, q, mask=np.ones((2, 2), bool))


@pytest.mark.parametrize("dropout_p", [-0.5, 1.5])
def test_the_dropout_must_be_a_probability(tensor, dropout_p):
    q = tensor(3, 2)
    with pytest.raises(ValueError, match="dropout_p"):
        ta.scaled_dot_product_attention(q, q, q, dropout_p=dropout_p)


def test_an_unknown_kind_or_option_is_named_with_the_known_ones(tensor):
    q = tensor(3, 2)
    with pytest.raises(ValueError, match=r"kind 'fast'.*dense, auto"):
        ta.scaled_dot_product_attention(q, q, q, kind="fast")
    for kind in ("auto", "dense"):
        with pytest.raises(TypeError, match="window"):
            ta.scaled_dot_product_attention(q, q, q, kind=kind, window=3)


def test_a_registered_kind_gets_its_options(tensor, registered):
    q, k, v = tensor(3, 2), tensor(4, 2), tensor(4, 2)
    seen = {}

    def nearest(q, k, v, *, mask, causal, scale, window):
        seen.update(mask=mask, causal=causal, scale=scale, window=window)
        return v[:3]

    options = {"window": Option(1, "Keys that a query sees.", minimum=1)}
    unsupported = frozenset({"dropout"})
    registered(
        AttentionKind(
            "nearest", nearest, options=options, has_weights=False, unsupported=unsupported
        )
    )
    assert "nearest" in attention_kinds()
    out = ta.scaled_dot_product_attention(q, k, v, causal=True, kind="nearest", window=5)
    assert out.shape == (3, 2)
    assert seen == {"mask": None, "causal": True, "scale": None, "window": 5}
    with pytest.raises(ValueError, match="does not support dropout"):
        ta.scaled_dot_product_attention(q, k, v, kind="nearest", dropout_p=0.1)
    with pytest.raises(ValueError, match="has no attention weights"):
        ta.scaled_dot_product_attention(q, k, v, kind="nearest", return_weights=True)
    with pytest.raises(TypeError, match=r"ranks.*window"):
        ta.scaled_dot_product_attention(q, k, v, kind="nearest", ranks=2)


@pytest.mark.parametrize(("theirs", "ours"), [("attn_mask", "mask"), ("is_causal", "causal")])
def test_pytorchs_argument_names_raise_with_our_names(theirs, ours):
    x = ta.ones((2, 3))
    with pytest.raises(TypeError, match=rf"argument {theirs}, .* use {ours}"):
        ta.scaled_dot_product_attention(x, x, x, **{theirs: True})
