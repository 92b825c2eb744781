"""Causal convolution equals PyTorch's, and continues from its state."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn import nn


@pytest.fixture
def x(device, random):
    return ta.tensor(random.normal(size=(2, 6, 3)), device=device)


@pytest.mark.parametrize("dilation", [1, 2])
def test_convolution_equals_pytorchs_with_zeros_on_the_left(dilation, device, x):
    torch = pytest.importorskip("torch")
    layer = nn.CausalConvolution(3, 5, 3, dilation).to("float64").to(device)
    kernel = torch.tensor(layer.weight.numpy().reshape(3, 3, 5)).permute(2, 1, 0)
    padded = torch.nn.functional.pad(torch.tensor(x.numpy()).mT, (2 * dilation, 0))
    bias = torch.tensor(layer.bias.numpy())
    expected = torch.nn.functional.conv1d(padded, kernel, bias, dilation=dilation).mT.numpy()
    np.testing.assert_allclose(layer(x).numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("kernel_size", [1, 3])
def test_convolution_continues_from_its_state(kernel_size, device, x):
    layer = nn.CausalConvolution(3, 5, kernel_size, dilation=2).to("float64").to(device)
    whole = layer(x).numpy()
    state, parts = None, []
    for start, stop in ((0, 1), (1, 2), (2, 6)):
        y, state = layer.forward_with_state(x[:, start:stop], state)
        parts.append(y.numpy())
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, atol=1e-14)


def test_convolution_refuses_a_kernel_without_tokens():
    with pytest.raises(ValueError, match="at least 1, got 0 and 1"):
        nn.CausalConvolution(3, 3, 0)
