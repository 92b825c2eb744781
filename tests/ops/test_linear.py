"""The affine map."""

import numpy as np
import pytest

import tinyattn as ta
from tests.gradient import check_gradient


@pytest.mark.parametrize("leading", [(), (3,), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_values_and_gradients(device, random, leading, with_bias):
    x = random.standard_normal((*leading, 4))
    weight, bias = random.standard_normal((4, 5)), random.standard_normal(5)
    arrays = (x, weight, bias) if with_bias else (x, weight)
    out = ta.linear(*(ta.tensor(a, device=device) for a in arrays))
    np.testing.assert_allclose(out.numpy(), x @ weight + (bias if with_bias else 0), rtol=1e-12)
    check_gradient(ta.linear, *arrays, device=device)


def test_arguments_may_be_named(device):
    x, weight = ta.tensor([1.0, 2.0], device=device), ta.tensor([[1.0], [1.0]], device=device)
    bias = ta.tensor([0.5], device=device)
    assert ta.linear(x, weight=weight, bias=bias).tolist() == [3.5]
    assert ta.linear(x, weight, bias=None).tolist() == [3.0]


def test_an_empty_batch_gives_a_weight_gradient_of_zeros(device):
    x = ta.tensor(np.ones((0, 3)), device=device)
    weight = ta.tensor(np.ones((3, 2)), requires_grad=True, device=device)
    out = ta.linear(x, weight)
    assert out.shape == (0, 2)
    out.sum().backward()
    np.testing.assert_array_equal(weight.grad.numpy(), np.zeros((3, 2)))


def test_incompatible_shapes_are_an_error_that_recognizes_pytorchs_layout(device):
    x = ta.tensor(np.ones((2, 3)), device=device)
    with pytest.raises(ValueError, match=r"\(2, 3\).*\(4, 5\)"):
        ta.linear(x, ta.tensor(np.ones((4, 5)), device=device))
    with pytest.raises(ValueError, match=r"weight\.T"):
        ta.linear(x, ta.tensor(np.ones((5, 3)), device=device))
    with pytest.raises(ValueError, match="two axes"):
        ta.linear(x, ta.tensor(np.ones(3), device=device))
    with pytest.raises(ValueError, match=r"bias of shape \(3,\).*\(4,\)"):
        ta.linear(
            x, ta.tensor(np.ones((3, 4)), device=device), ta.tensor(np.ones(3), device=device)
        )


def test_transposed_and_strided_inputs_give_the_same_gradients(device, random):
    x, weight = random.standard_normal((4, 6)), random.standard_normal((5, 3))
    whole = ta.tensor(x, requires_grad=True, device=device)
    rows = whole.T[::2, :]  # (3, 4): strided, transposed
    matrix = ta.tensor(weight[:4], requires_grad=True, device=device)
    g = random.standard_normal((3, 3))
    ta.linear(rows, matrix).backward(ta.tensor(g, device=device))
    expected = np.zeros((4, 6))
    expected[:, ::2] = (g @ weight[:4].T).T
    np.testing.assert_allclose(whole.grad.numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(matrix.grad.numpy(), x.T[::2].T @ g, rtol=1e-12)
