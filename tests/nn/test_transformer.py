"""TransformerBlock: placement of the norms, and the reach of dropout."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn import nn


@pytest.fixture
def x(device, random):
    return ta.tensor(random.normal(size=(2, 5, 8)), device=device)


def block(device, **options):
    ta.manual_seed(0)
    return nn.TransformerBlock(8, 2, **options).to("float64").to(device)


def test_post_norm_normalizes_each_sum(device, x):
    layer = block(device, norm="post")
    h = layer.norm1(x + layer.attention(x))
    expected = layer.norm2(h + layer.feed_forward(h))
    np.testing.assert_array_equal(layer(x).numpy(), expected.numpy())
    np.testing.assert_allclose(layer(x).numpy().mean(axis=-1), 0, atol=1e-12)


def test_pre_norm_normalizes_each_layers_input_and_leaves_the_stream_alone(device, x):
    layer = block(device, norm="pre", norm_kind="rms_norm")
    h = x + layer.attention(layer.norm1(x))
    expected = h + layer.feed_forward(layer.norm2(h))
    np.testing.assert_array_equal(layer(x).numpy(), expected.numpy())
    for projection in (layer.attention.project, layer.feed_forward.contract):
        for parameter in projection.parameters():
            parameter.data = parameter._data * 0
    np.testing.assert_array_equal(layer(x).numpy(), x.numpy())


def test_without_bias_there_is_none_in_linear_layers_nor_norms():
    names = [name for name, _ in nn.TransformerBlock(8, 2, bias=False).named_parameters()]
    assert len(names) == 8 and not any("bias" in name for name in names)


def test_dropout_reaches_both_layers_and_leaves_kinds_without_weights_theirs():
    layer = nn.TransformerBlock(8, 2, dropout=0.3, kind="linear")
    assert layer.dropout.p == layer.feed_forward.dropout.p == 0.3
    assert layer.attention.dropout.p == 0
    assert nn.TransformerBlock(8, 2, dropout=0.3).attention.dropout.p == 0.3


def test_an_unknown_norm_is_refused():
    with pytest.raises(ValueError, match="'middle'"):
        nn.TransformerBlock(8, 2, norm="middle")
    with pytest.raises(ValueError, match="'batch_norm'"):
        nn.TransformerBlock(8, 2, norm_kind="batch_norm")
