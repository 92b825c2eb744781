"""Kernels of whole layers: one node, only for first-order gradients, and with the checks of primitives."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.autograd import layers
from tinyattn.autograd.layers import find_layer, register_layer
from tinyattn.autograd.modes import watch_operations
from tinyattn.autograd.replacement import replaced_vjps


def forward(x, weight, *, factor):
    if x.ndim != 1:
        return NotImplemented
    return factor * x * weight, (x, weight, factor)


def backward(g, residuals):
    x, weight, factor = residuals
    return factor * g * weight, None if weight is None else factor * g * x


@pytest.fixture(autouse=True)
def scaled():
    register_layer("scaled", "cpu", forward, backward)
    yield
    del layers._LAYERS["scaled", "cpu"]


def leaves(*arrays):
    return [ta.tensor(array, dtype="float64", requires_grad=True) for array in arrays]


def test_a_layer_is_one_operation_of_the_graph():
    x, weight = leaves([1.0, 2.0], [3.0, 4.0])
    with ta.first_order():
        y = find_layer("scaled", x)(x, weight, factor=2.0)
        (y * 5.0).sum().backward()
    assert y.tolist() == [6.0, 16.0]
    assert x.grad.tolist() == [30.0, 40.0] and weight.grad.tolist() == [10.0, 20.0]


def test_an_input_without_requires_grad_gets_no_gradient():
    x, weight = leaves([1.0, 2.0], [3.0, 4.0])
    weight.requires_grad = False
    with ta.first_order():
        find_layer("scaled", x)(x, weight, factor=1.0).sum().backward()
        assert not find_layer("scaled", x)(weight, weight, factor=1.0).requires_grad
    assert weight.grad is None and x.grad.tolist() == [3.0, 4.0]


def test_a_kernel_can_decline():
    (x,) = leaves(np.ones((2, 2)))
    with ta.first_order():
        assert find_layer("scaled", x)(x, x, factor=1.0) is NotImplemented


@pytest.mark.parametrize(
    "mode",
    [
        ta.no_grad(),
        ta.reference(),
        ta.detect_anomaly(),
        watch_operations(print),
        replaced_vjps({"exp": {}}),
    ],
    ids=["no_grad", "reference", "detect_anomaly", "watch_operations", "replaced_vjps"],
)
def test_modes_that_need_every_operation_find_no_layer(mode):
    (x,) = leaves([1.0])
    with ta.first_order():
        with mode:
            assert find_layer("scaled", x) is None
        assert find_layer("scaled", x) is not None
        assert find_layer("another", x) is None
    assert find_layer("scaled", x) is None


def test_second_order_gradients_are_an_error():
    x, weight = leaves([1.0], [3.0])
    with ta.first_order():
        y = find_layer("scaled", x)(x, weight, factor=1.0)
    with pytest.raises(RuntimeError, match=r"scaled .* was recorded inside first_order"):
        y.backward(create_graph=True)


def test_an_input_that_changes_before_the_backward_pass_is_an_error():
    x, weight = leaves([1.0], [3.0])
    with ta.first_order():
        y = find_layer("scaled", x)(x, weight, factor=1.0)
    weight.data *= 2.0
    with pytest.raises(RuntimeError, match="input 1 of scaled was changed after it was used"):
        y.backward()
