"""Hard cases LN: layer norm is exact for rows far from zero and rows of one element, with eps inside the root."""

import numpy as np
import pytest

import tinyattn as ta


def test_LN_01_a_mean_far_above_the_deviation_costs_no_accuracy(leaf):
    x = leaf([40000, 40001, 40002, 40003], "float32")
    expected = [-1.34163542, -0.44721181, 0.44721181, 1.34163542]
    np.testing.assert_allclose(ta.layer_norm(x, 4).numpy(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 5])
def test_LN_02_steps_of_a_thousandth_at_ten_thousand_are_seen_in_float32(leaf, constant, rows):
    step = (10000 + np.arange(16) * 1e-3).astype("float32")
    x = np.tile(step, (rows, 1))
    y = ta.layer_norm(leaf(x, "float32"), 16).numpy()
    exact = ta.layer_norm(constant(x), 16).numpy()
    np.testing.assert_allclose(exact[0, [0, -1]], [-1.33133335, 1.33133335], rtol=0, atol=1e-8)
    assert np.abs(y - exact).max() < 1e-6


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_LN_04_a_row_of_one_element_is_its_bias(leaf, dtype):
    x, weight, bias = leaf([1e6], dtype), leaf([2], dtype), leaf([3], dtype)
    y = ta.layer_norm(x, 1, weight, bias)
    assert y.tolist() == [3]
    y.backward(ta.ones_like(y))
    assert (weight.grad.tolist(), x.grad.tolist(), bias.grad.tolist()) == ([0], [0], [1])


def test_LN_05_eps_is_added_to_the_biased_variance_inside_the_root(leaf, equals):
    y = ta.layer_norm(leaf([1, 0, 0, 0]), 4, eps=1e-6)
    equals(y, [1.73204619, -0.57734873, -0.57734873, -0.57734873], decimals=8)
    y = ta.layer_norm(leaf([-0.001, 0.001]), 2, eps=1e-5)
    equals(y, [-0.30151134, 0.30151134], decimals=8)


def test_LN_07_mean_and_variance_have_their_part_in_the_gradient(leaf, constant, equals):
    x = leaf([1, 2, 3, 4])
    ta.layer_norm(x, 4).backward(constant([1, 0, 0, 0]))
    equals(x.grad, [0.26833030, -0.35776837, -0.08944343, 0.17888150], decimals=8)
    assert abs(x.grad.numpy().sum()) < 1e-15


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_LN_08_strided_rows_give_the_bits_of_their_copy(leaf, device, random, dtype):
    base = random.standard_normal((2, 3, 4)).astype(dtype)
    long = random.standard_normal((6, 5)).astype(dtype)
    for strided, view in (
        (leaf(base, dtype), lambda x: x.transpose(0, 2, 1)),
        (leaf(long, dtype), lambda x: x[::2]),
    ):
        rows = view(strided)
        copied = ta.tensor(rows.numpy().copy(order="C"), requires_grad=True, device=device)
        width = rows.shape[-1]
        g = random.standard_normal(rows.shape).astype(dtype)
        results = []
        for x, start in ((rows, strided), (copied, copied)):
            weight = leaf(np.linspace(0.5, 2, width), dtype)
            y = ta.layer_norm(x, width, weight)
            y.backward(ta.tensor(g, device=device))
            gradient = start.grad if start is copied else view(start.grad)
            results.append((y.numpy(), gradient.numpy(), weight.grad.numpy()))
        for one, other in zip(*results):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("eps", [0.0, -1e-5])
def test_LN_10_eps_must_be_positive(leaf, eps):
    for normalize in (ta.layer_norm, ta.rms_norm):
        with pytest.raises(ValueError, match="eps"):
            normalize(leaf(np.zeros((3, 4))), 4, eps=eps)
    assert ta.layer_norm(leaf(np.zeros((3, 4))), 4).tolist() == np.zeros((3, 4)).tolist()
