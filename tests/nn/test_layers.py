"""Layers: values, gradients, initial weights, dtypes and errors."""

import numpy as np
import pytest

import tinyattn as ta
from tests.gradient import check_gradient
from tinyattn import nn
from tinyattn.nn.parameter import without_memory
from tinyattn.nn.placement import adopt


def layers():
    return {
        "linear": (nn.Linear(4, 3), (2, 5, 4)),
        "linear without bias": (nn.Linear(4, 3, bias=False), (2, 4)),
        "layer norm": (nn.LayerNorm(4), (2, 5, 4)),
        "layer norm, bare": (nn.LayerNorm((5, 4), weight=False, bias=False), (2, 5, 4)),
        "rms norm": (nn.RMSNorm(4), (2, 5, 4)),
        "feed forward": (nn.FeedForward(4, 6, activation="gelu_tanh"), (2, 5, 4)),
        "feed forward, squared relu": (nn.FeedForward(4, activation="relu_squared"), (3, 4)),
        "gru": (nn.GRU(4, 3), (2, 3, 4)),
        "convolution": (nn.CausalConvolution(4, 3, 2, dilation=2), (2, 5, 4)),
        "attention": (nn.MultiHeadAttention(4, 2, causal=True), (2, 3, 4)),
        "block": (nn.TransformerBlock(4, 2, norm="post"), (2, 3, 4)),
    }


@pytest.mark.parametrize("name", layers())
def test_gradients_of_input_and_parameters_are_those_of_differences(name, device, random):
    ta.manual_seed(3)
    layer, shape = layers()[name]
    layer.to("float64").to(device)
    parameters = layer.parameters()
    for parameter in parameters:  # away from zero biases and unit weights
        parameter.data = parameter._data + 0.1
    hosts = [parameter.numpy() for parameter in parameters]

    def run(x, *values):
        holders = _holders(layer)
        for (module, attribute), value in zip(holders, values):
            object.__setattr__(module, attribute, value)
        try:
            return layer(x)
        finally:
            for (module, attribute), parameter in zip(holders, parameters):
                object.__setattr__(module, attribute, parameter)

    check_gradient(run, random.normal(size=shape), *hosts, device=device, order=1)


def _holders(layer):
    return [
        (module, attribute)
        for module in layer.modules()
        for attribute, value in vars(module).items()
        if isinstance(value, nn.Parameter)
    ]


@pytest.mark.parametrize("name", layers())
def test_float32_stays_float32_forward_and_backward(name, device, random):
    layer, shape = layers()[name]
    layer.to(device)
    x = ta.tensor(random.normal(size=shape).astype("f4"), requires_grad=True, device=device)
    y = layer(x)
    y.backward(ta.tensor(random.normal(size=y.shape).astype("f4"), device=device))
    assert y.dtype == x.grad.dtype == np.float32
    assert all(parameter.grad.dtype == np.float32 for parameter in layer.parameters())


def test_initial_weights_are_the_same_on_every_device_for_one_seed(device):
    def draw(where):
        ta.manual_seed(5)
        with ta.device(where):
            layer = nn.Sequential(nn.Linear(4, 3), nn.Embedding(5, 2))
        assert layer.device == where
        return layer.state_dict()

    here, on_cpu = draw(device), draw("cpu")
    assert all(np.array_equal(here[name], on_cpu[name]) for name in on_cpu)


def test_linear_starts_within_one_over_the_root_of_its_inputs():
    ta.manual_seed(0)
    weight = nn.Linear(100, 200).weight.numpy()
    assert 0.09 < np.abs(weight).max() <= 0.1
    assert np.isclose(weight.std(), 0.1 / np.sqrt(3), rtol=0.02)


def test_linear_refuses_parts_that_do_not_divide():
    with pytest.raises(ValueError, match="10 cannot be divided into 3"):
        nn.Linear(4, 10, parts=3)


def test_embedding_looks_rows_up_and_refuses_ids_out_of_range(device):
    table = nn.Embedding(3, 2).to(device)
    rows = table(ta.tensor([[2, 0], [2, 2]], device=device))
    assert np.array_equal(rows.numpy(), table.weight.numpy()[[[2, 0], [2, 2]]])
    with pytest.raises(IndexError, match="3"):
        table(ta.tensor([3], device=device))


def test_normalization_brings_rows_to_mean_0_and_deviation_1(device, random):
    x = ta.tensor(random.normal(5, 3, size=(4, 64)), device=device)
    y = nn.LayerNorm(64).to("float64").to(device)(x).numpy()
    np.testing.assert_allclose(y.mean(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(y.std(axis=1), 1, atol=1e-5)
    z = nn.RMSNorm(64).to("float64").to(device)(x).numpy()
    np.testing.assert_allclose((z**2).mean(axis=1), 1, atol=1e-5)


def test_dropout_acts_in_training_only_and_repeats_with_the_seed(device):
    layer, x = nn.Dropout(0.5), ta.ones((1000,), device=device)
    ta.manual_seed(0)
    first = layer(x).numpy()
    ta.manual_seed(0)
    assert np.array_equal(layer(x).numpy(), first)
    assert set(first.tolist()) == {0.0, 2.0}
    assert np.array_equal(layer.eval()(x).numpy(), x.numpy())


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_dropout_rejects_p_outside_0_to_1(p):
    with pytest.raises(ValueError, match="between 0 and 1"):
        nn.Dropout(p)


def test_a_layer_without_memory_draws_no_random_numbers_until_it_adopts_an_array():
    ta.manual_seed(0)
    expected = ta.randn(2).tolist()
    ta.manual_seed(0)
    with without_memory():
        layer = nn.Linear(1_000_000, 1_000_000)
    assert ta.randn(2).tolist() == expected
    assert layer.weight._data.base.nbytes == 4
    adopt(layer.weight, np.ones((2, 3), np.float32))
    adopt(layer.bias, np.ones(3, np.float32))
    assert layer(ta.ones((1, 2))).tolist() == [[3, 3, 3]]
    assert nn.Linear(2, 2).weight._data.flags.writeable
