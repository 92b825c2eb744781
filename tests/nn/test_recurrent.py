"""The GRU equals PyTorch's, and continues from a state."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn import nn


@pytest.fixture
def x(device, random):
    return ta.tensor(random.normal(size=(2, 6, 3)), device=device)


def test_gru_equals_pytorchs(device, x):
    torch = pytest.importorskip("torch")
    gru = nn.GRU(3, 4).to("float64").to(device)
    other = torch.nn.GRU(3, 4, batch_first=True).double()
    for name, layer in (("ih", gru.input), ("hh", gru.hidden)):
        getattr(other, f"weight_{name}_l0").data = torch.tensor(layer.weight.numpy().T)
        getattr(other, f"bias_{name}_l0").data = torch.tensor(layer.bias.numpy())
    expected = other(torch.tensor(x.numpy()))[0].detach().numpy()
    np.testing.assert_allclose(gru(x).numpy(), expected, atol=1e-12)


def test_gru_continues_from_a_state(device, x):
    gru = nn.GRU(3, 4).to("float64").to(device)
    whole = gru(x)
    rest = gru(x[:, 2:], state=whole[:, 1])
    np.testing.assert_allclose(rest.numpy(), whole.numpy()[:, 2:], atol=1e-14)
