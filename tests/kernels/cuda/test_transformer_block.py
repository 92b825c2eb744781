"""The kernel of a transformer block, simulated, computes what the block's modules compute on the CPU."""

import numpy as np
import pytest

import tinyattn as ta
from tests.kernels.cuda.tools import need_compiler
from tinyattn import nn
from tinyattn.backend import Random, default_random, use_random
from tinyattn.backend.launches import recorded_launches
from tinyattn.kernels.cuda import simulated_kernels
from tinyattn.nn.positions import Rotary

need_compiler()

# What a block can be made of; the sizes are not multiples of those of warps and tiles.
BLOCKS = {
    "layer norm, no biases": {"bias": False},
    "layer norm, biases, dropout": {"dropout": 0.3, "activation": "gelu_tanh"},
    "layer norm, biases": {"activation": "relu_squared"},
    "rms norm, rotary": {"norm_kind": "rms_norm", "bias": False, "rotary": True},
    "rms norm, biases, queries and keys normalized": {"norm_kind": "rms_norm", "qk_norm": True},
    "dropout, both": {"bias": False, "dropout": 0.4, "qk_norm": True, "rotary": True},
    "rms norm, biases, dropout": {"norm_kind": "rms_norm", "dropout": 0.2},
}
DIM, HEADS, LENGTH = 36, 2, 11
LONG_ROWS = {"shape": (1, 3, 544), "dim": 544, "heads": 8, "feed_forward_dim": 8}
TOLERANCE = {"float64": 1e-11, "float32": 3e-5, "float16": 2e-2}


def make_block(dtype, device, dim=DIM, heads=HEADS, query_scale=1.0, **options):
    options = {"causal": True, **options}
    if options.pop("rotary", False):
        options["rotary"] = Rotary(dim // heads)
    with use_random(Random(0)):
        block = nn.TransformerBlock(dim, heads, **options)
    random = np.random.default_rng(1)
    for _, parameter in block.named_parameters():  # also gains and biases, which begin at 1 and 0
        parameter.data = parameter.numpy() + 0.3 * random.standard_normal(parameter.shape)
    block.attention.query.weight.data *= query_scale
    return block.to(dtype).to(device)


def forward_and_backward(block, dtype, shape):
    """Output and gradients by name, and the next number of the random stream."""
    random = np.random.default_rng(2)
    x, g = (
        ta.tensor(random.standard_normal(shape), dtype=dtype, device=block.device) for _ in range(2)
    )
    x.requires_grad = True
    with use_random(Random(3)), ta.first_order():
        y = block(x)
        following = default_random().key()
    y.backward(g)
    gradients = {name: p.grad.numpy() for name, p in block.named_parameters()}
    return {"out": y.numpy(), "x": x.grad.numpy(), **gradients}, following


def compare(options, dtype="float64", shape=(3, LENGTH, DIM), **sizes):
    with simulated_kernels(), recorded_launches() as launches:
        block = make_block(dtype, "strict", **sizes, **options)
        found, key = forward_and_backward(block, dtype, shape)
    assert any(name.startswith("layer_norm") or name.startswith("rms_norm") for name in launches)
    assert "add" not in launches  # else the modules have run
    exact = "float32" if dtype == "float32" else "float64"
    expected, expected_key = forward_and_backward(
        make_block(exact, "cpu", **sizes, **options), exact, shape
    )
    assert key == expected_key
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        # The gradient of a key's bias is 0 without normalization, as softmax ignores a shift of its scores.
        largest = np.abs(expected[name.replace("key.bias", "value.bias")]).max()
        error = np.abs(found[name].astype("float64") - array).max()
        assert error <= TOLERANCE[dtype] * largest, f"{name}: {error / largest}"


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_equals_its_modules(name, dtype):
    compare(BLOCKS[name], dtype)


@pytest.mark.parametrize("shape", [(1, 1, DIM), (5, DIM), (2, 2, 3, DIM)])
def test_tokens_may_have_any_leading_axes(shape):
    compare(BLOCKS["layer norm, biases"], shape=shape)


def test_rows_may_be_longer_than_a_warp_keeps_and_heads_longer_than_a_warp():
    for name in ("layer norm, biases, dropout", "rms norm, rotary"):
        compare(BLOCKS[name], **LONG_ROWS)


def test_queries_whose_squares_overflow_are_normalized():
    options = {"norm_kind": "rms_norm", "bias": False, "qk_norm": True, "rotary": True}
    compare({**options, "query_scale": 1e22}, "float32")
