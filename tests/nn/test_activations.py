"""Activation layers: values, settings, and errors."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn import nn


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("relu", [0.0, 2.0]),
        ("relu_squared", [0.0, 4.0]),
        ("gelu", [-0.15865525, 1.95449974]),
        ("gelu_tanh", [-0.15880801, 1.95459769]),
        ("silu", [-0.26894142, 1.76159416]),
    ],
)
def test_activations_by_name(name, expected, device):
    y = nn.Activation(name)(ta.tensor(np.array([-1.0, 2.0]), device=device))
    np.testing.assert_allclose(y.numpy(), expected, atol=1e-8)


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (nn.ReLU, "relu"),
        (nn.Sigmoid, "sigmoid"),
        (nn.SiLU, "silu"),
        (nn.Tanh, "tanh"),
        (nn.GELU, "gelu"),
        (lambda: nn.GELU(approximate="tanh"), "gelu_tanh"),
    ],
)
def test_activations_by_class_are_those_by_name(layer, name, random, device):
    x = ta.tensor(random.standard_normal((3, 4)), device=device)
    model = nn.Sequential(layer())
    assert np.array_equal(model(x).numpy(), nn.Activation(name)(x).numpy())
    assert model.parameters() == []


def test_activations_by_class_show_their_settings_and_refuse_unknown_ones():
    assert repr(nn.ReLU()) == "ReLU()" and repr(nn.GELU("tanh")) == "GELU(approximate='tanh')"
    with pytest.raises(ValueError, match="'erf'"):
        nn.GELU("erf")


def test_an_unknown_activation_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="'swish': expected one of gelu"):
        nn.FeedForward(4, activation="swish")
