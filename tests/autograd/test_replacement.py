"""Other vector-Jacobian products run inside the block, and the own ones and the kernels after it."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.autograd.primitive import registered_kernels
from tinyattn.autograd.replacement import replaced_vjps


def gradient():
    x = ta.tensor([[1.0, 2.0]], requires_grad=True)
    ta.softmax(x).backward(ta.tensor([[1.0, 0.0]]))
    return x.grad.numpy()


def test_other_products_run_inside_and_the_own_ones_after_an_error():
    own, kernels = gradient(), registered_kernels()
    with pytest.raises(ZeroDivisionError), replaced_vjps({"softmax": {0: lambda g, y, x: 5 * g}}):
        assert np.array_equal(gradient(), [[5, 0]])
        assert ("softmax", "cpu") not in registered_kernels()
        raise ZeroDivisionError
    assert np.array_equal(gradient(), own) and registered_kernels() == kernels


def test_what_the_products_read_is_kept_for_them():
    with replaced_vjps({"neg": {0: lambda g, out, x: g * out * x}}):
        x = ta.tensor([3.0], requires_grad=True)
        (-x).backward(ta.tensor([1.0]))
    assert x.grad.item() == -9


def test_a_function_without_the_inputs_is_refused_and_nothing_changes():
    own, kernels = gradient(), registered_kernels()
    with pytest.raises(TypeError, match="cannot be the backward of softmax"):
        with replaced_vjps({"gelu": {}, "softmax": {0: lambda g: g}}):
            pass
    assert np.array_equal(gradient(), own) and registered_kernels() == kernels


def test_no_products_switch_the_kernels_off():
    with replaced_vjps({"softmax": {}}):
        assert ("softmax", "cpu") not in registered_kernels()
        assert ("gelu", "cpu") in registered_kernels()
