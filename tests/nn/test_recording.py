"""``Module.record``: outputs of submodules and their gradients."""

import gc
import weakref

import numpy as np
import pytest

import tinyattn as ta
from tinyattn import nn


@pytest.fixture
def block():
    ta.manual_seed(0)
    return nn.TransformerBlock(8, heads=2, causal=True).to("float64")


def test_scores_and_weights_and_their_gradients_are_those_of_grad(block, random):
    x = ta.tensor(random.normal(size=(2, 5, 8)))
    cotangent = ta.tensor(random.normal(size=(2, 5, 8)))
    with block.record("attention.scores", "attention.weights") as record:
        output = block(x)
    assert record.shapes == {"attention.scores": (2, 2, 5, 5), "attention.weights": (2, 2, 5, 5)}
    tensors = [record[name].tensor for name in record]
    expected = ta.grad(output, tensors, grad_outputs=cotangent, retain_graph=True)
    output.backward(cotangent)
    for name, gradient in zip(record, expected):
        np.testing.assert_array_equal(record[name].gradient, gradient.numpy())
    P, dP = (getattr(record["attention.weights"], what) for what in ("value", "gradient"))
    causal = np.tril(np.ones((5, 5), bool))
    np.testing.assert_allclose(P.sum(axis=-1), 1, atol=1e-12)
    dS = P * (dP - (P * dP).sum(axis=-1, keepdims=True))
    np.testing.assert_allclose(record["attention.scores"].gradient, dS, atol=1e-12)
    assert np.abs(dS[..., causal]).max() > 0
    assert np.all(P[..., ~causal] == 0)


def test_recording_changes_no_output(block, random):
    x = ta.tensor(random.normal(size=(2, 5, 8)))
    plain = block(x).numpy()
    with block.record() as record:
        watched = block(x).numpy()
    np.testing.assert_allclose(watched, plain, atol=1e-12)
    assert "feed_forward" in record and "norm1" in record
    assert not block.attention.scores.is_watched, "the hooks are gone after the block"


@pytest.mark.parametrize("kind", ["dense", "window", "linear"])
def test_everything_is_recorded_with_each_kind_of_attention_unchanged(kind, random):
    ta.manual_seed(0)
    block = nn.TransformerBlock(8, heads=2, causal=True, kind=kind).to("float64")
    x = ta.tensor(random.normal(size=(2, 40, 8)))
    plain = block(x).numpy()
    with block.record("*") as record:
        np.testing.assert_allclose(block(x).numpy(), plain, atol=1e-12)
    assert ("attention.weights" in record) == (kind != "linear")
    if kind == "linear":
        with block.record("attention.weights"), pytest.raises(ValueError, match="linear"):
            block(x)


def test_a_frozen_model_is_recorded_without_gradients(block):
    block.requires_grad_(False)
    with block.record("norm2") as record:
        block(ta.zeros((3, 8)))
    assert record["norm2"].gradient is None and record["norm2"].value.shape == (3, 8)


def test_a_pattern_that_matches_nothing_raises_with_the_names_of_the_modules(block):
    with pytest.raises(ValueError, match=r"attention\.query"):
        block.record("atention")


def test_an_unrecorded_name_raises_with_the_recorded_names(block):
    with block.record("norm1", "norm2") as record:
        block(ta.zeros((3, 8)))
    with pytest.raises(KeyError, match="norm1, norm2"):
        record["norm3"]


def test_hooks_are_removed_when_the_block_raises(block):
    with pytest.raises(ZeroDivisionError), block.record():
        raise ZeroDivisionError
    assert not any(module.is_watched for module in block.modules())


def test_recorded_tensors_are_freed_with_their_last_reference(block):
    gc.disable()
    try:
        with block.record() as record:
            block(ta.ones((1, 2, 8), dtype="float64")).sum().backward(retain_graph=True)
        output = record["norm1"].tensor
        assert record["norm1"].gradient is not None
        alive = weakref.ref(output._node)
        del output, record
        assert alive() is None
    finally:
        gc.enable()
