"""A block runs the kernel of the whole block in training steps, and its modules everywhere else."""

import numpy as np
import pytest

import tinyattn as ta
from tests.kernels.cuda.test_transformer_block import (
    DIM,
    HEADS,
    LENGTH,
    forward_and_backward,
    make_block,
)
from tests.kernels.cuda.tools import need_compiler
from tinyattn import nn
from tinyattn.autograd.replacement import replaced_vjps
from tinyattn.backend.launches import recorded_launches
from tinyattn.kernels.cuda import simulated_kernels

need_compiler()


@pytest.mark.parametrize(
    "options",
    [
        {"norm": "post"},
        {"causal": False},
        {"kind": "window", "window": 4},
        {"kind": "dense"},
        {"alibi": nn.ALiBi(HEADS)},
        {"activation": "silu"},
        {"heads": 4},  # of 9 features: an odd number has no pairs
    ],
    ids=lambda options: ", ".join(f"{key}" for key in options),
)
def test_a_block_that_the_kernel_does_not_compute_runs_its_modules(options):
    with simulated_kernels(), recorded_launches() as launches:
        block = make_block("float64", "strict", dropout=0.2, **options)
        found, key = forward_and_backward(block, "float64", (2, LENGTH, DIM))
    assert "add" in launches
    block = make_block("float64", "cpu", dropout=0.2, **options)
    expected, expected_key = forward_and_backward(block, "float64", (2, LENGTH, DIM))
    assert key == expected_key
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=0, atol=1e-10, err_msg=name)


def launches_of(block, **arguments):
    x = ta.ones((1, 4, DIM), device="strict", requires_grad=True)
    with recorded_launches() as launches:
        block(x, **arguments)
    return launches


def test_modules_run_outside_a_training_step_and_for_masks_caches_and_hooks():
    with simulated_kernels():
        block = make_block("float32", "strict")
        with ta.first_order():
            assert "add" not in launches_of(block)
            mask = ta.ones((4, 4), device="strict") > 0
            assert "add" in launches_of(block, mask=mask)
            assert "add" in launches_of(block, cache=nn.KeyValueCache())
            with ta.reference():
                assert "add" in launches_of(block)
            with ta.no_grad():
                assert "add" in launches_of(block)
            with ta.detect_anomaly():
                assert "add" in launches_of(block)
            with block.feed_forward.record():
                assert "add" in launches_of(block)
            assert "add" not in launches_of(block)
        assert "add" in launches_of(block)


def test_a_projection_without_the_bias_of_the_others_runs_the_modules():
    with simulated_kernels(), ta.first_order():
        block = make_block("float32", "strict")
        block.attention.key.bias = None
        assert "add" in launches_of(block)


def test_a_norm_over_two_axes_runs_the_modules():
    outputs = []
    for device in ("strict", "cpu"):
        block = make_block("float64", device)
        block.norm1 = nn.LayerNorm((LENGTH, DIM)).to("float64").to(device)
        with simulated_kernels():
            outputs.append(forward_and_backward(block, "float64", (2, LENGTH, DIM))[0])
    found, expected = outputs
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=0, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("name", ["norm1.weight", "norm2.bias", "feed_forward.expand.bias"])
def test_a_parameter_of_another_shape_is_the_error_of_its_module(name):
    with simulated_kernels(), ta.first_order():
        block = make_block("float32", "strict")
        module, _, parameter = name.rpartition(".")
        module = dict(block.named_modules())[module]
        setattr(module, parameter, nn.Parameter(np.ones(5, "float32"), device="strict"))
        with pytest.raises(ValueError, match=r"\(5,\)"):
            launches_of(block)


def test_an_array_is_converted_as_by_the_modules():
    block = nn.TransformerBlock(DIM, HEADS)
    x = np.ones((1, 4, DIM), "float32")
    with ta.first_order():
        assert block(x).tolist() == block(ta.tensor(x)).tolist()


def test_attention_in_eval_mode_drops_no_weights():
    for part in ("attention", "attention.dropout"):
        outputs = []
        for device in ("strict", "cpu"):
            block = make_block("float64", device, dropout=0.3)
            dict(block.named_modules())[part].eval()
            with simulated_kernels():
                outputs.append(forward_and_backward(block, "float64", (2, LENGTH, DIM))[0]["out"])
        np.testing.assert_allclose(*outputs, rtol=0, atol=1e-10)


def test_a_replaced_vector_jacobian_product_is_used():
    with (
        simulated_kernels(),
        ta.first_order(),
        replaced_vjps({"gelu": {0: lambda g, _out, x, approximate: 0 * g}}),
    ):
        block = make_block("float32", "strict")
        x = ta.ones((1, 4, DIM), device="strict", requires_grad=True)
        block(x).sum().backward()
        assert not block.feed_forward.expand.weight.grad.numpy().any()
