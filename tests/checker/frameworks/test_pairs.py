"""Pairs of NumPy functions."""

import numpy as np
import pytest

from tinyattn.checker import GradcheckError, gradcheck
from tinyattn.checker.check import problem_of

RANDOM = np.random.default_rng(0)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_backward(g, x):
    y = softmax(x)
    return y * (g - np.sum(g * y, axis=-1, keepdims=True))


def linear(x, w, b):
    return x @ w + b


def linear_backward(g, x, w, b):
    return g @ w.T, x.T @ g, g.sum(axis=0)


def test_a_right_pair_passes_for_one_array_and_for_several():
    assert gradcheck((softmax, softmax_backward), RANDOM.standard_normal((3, 4)))
    arrays = [RANDOM.standard_normal(shape) for shape in [(5, 3), (3, 2), (2,)]]
    assert gradcheck((linear, linear_backward), arrays)


def test_a_wrong_pair_names_the_argument_the_element_and_the_call():
    def backward(g, x, w, b):
        dx, dw, db = linear_backward(g, x, w, b)
        dw[1, 0] *= 1.01
        return dx, dw, db

    arrays = [RANDOM.standard_normal(shape) for shape in [(5, 3), (3, 2), (2,)]]
    with pytest.raises(GradcheckError) as caught:
        gradcheck((linear, backward), arrays)
    assert (caught.value.argument, caught.value.index) == ("inputs[1]", (1, 0))
    assert "ta.gradcheck((linear, backward), [<float64 of shape (5, 3)>" in str(caught.value)
    assert "leaves the graph" not in str(caught.value)


def test_several_outputs_get_a_tuple_of_cotangents():
    def forward(x):
        return np.sin(x), x * x

    def backward(g, x):
        return g[0] * np.cos(x) + g[1] * 2 * x

    assert gradcheck((forward, backward), [RANDOM.standard_normal(3)])


def test_arguments_that_are_no_arrays_are_passed_on():
    assert gradcheck((lambda x, n: x**n, lambda g, x, n: g * n * x ** (n - 1)), [np.ones(2), 3])


def test_a_last_parameter_called_gradients_is_added_into():
    def backward(g, x, gradients):
        gradients[0] += g * np.cos(x)

    assert gradcheck((np.sin, backward), [RANDOM.standard_normal(4)])


def test_gradients_that_are_overwritten_are_found():
    def backward(g, x, gradients):
        gradients[0][...] = g * np.cos(x)

    with pytest.raises(GradcheckError, match="overwrites a gradient"):
        gradcheck((np.sin, backward), [RANDOM.standard_normal(4)])


def test_params_and_inputs_without_arrays_are_refused():
    with pytest.raises(TypeError, match="expected every checked array in inputs"):
        problem_of((softmax, softmax_backward), np.ones(3), params={"w": np.ones(2)})
    with pytest.raises(TypeError, match="there is nothing to check: the inputs hold int"):
        problem_of((softmax, softmax_backward), [3])
