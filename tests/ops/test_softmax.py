"""Softmax, log-softmax, log-sum-exp."""

import numpy as np
import pytest

import tinyattn as ta
from tests.gradient import check_gradient

INF = np.inf


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("operation", [ta.softmax, ta.log_softmax, ta.logsumexp])
def test_gradients_agree_with_differences_to_second_order(device, random, operation, axis):
    x = random.standard_normal((2, 3, 2)) * 2
    check_gradient(lambda x: operation(x, axis=axis), x, device=device)


@pytest.mark.parametrize("axis", [None, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_logsumexp_reduces_several_axes(device, random, axis, keepdims):
    x = random.standard_normal((2, 3, 2))
    expected = np.log(np.exp(x).sum(axis=axis, keepdims=keepdims))
    out = ta.logsumexp(ta.tensor(x, device=device), axis=axis, keepdims=keepdims)
    assert out.shape == expected.shape
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-14)
    check_gradient(lambda x: ta.logsumexp(x, axis=axis, keepdims=keepdims), x, device=device)


def test_softmax_is_the_quotient_of_exponentials(device, random):
    x = random.standard_normal((4, 7)) * 5
    expected = np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)
    tensor = ta.tensor(x, device=device)
    np.testing.assert_allclose(ta.softmax(tensor).numpy(), expected, rtol=1e-13)
    np.testing.assert_allclose(ta.log_softmax(tensor).numpy(), np.log(expected), rtol=1e-12)


def test_a_constant_added_to_a_row_changes_nothing(device, random):
    x = random.standard_normal((2, 5)).astype("float32").round(2)
    for shift in (64.0, -4096.0):
        near = ta.softmax(ta.tensor(x, device=device)).numpy()
        far = ta.softmax(ta.tensor(x + np.float32(shift), device=device)).numpy()
        np.testing.assert_allclose(far, near, rtol=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("operation", [ta.softmax, ta.log_softmax, ta.logsumexp])
def test_the_dtype_is_kept_in_both_directions(device, operation, dtype):
    x = ta.tensor(np.array([1.0, 2.0], dtype), requires_grad=True, device=device)
    out = operation(x)
    out.sum().backward()
    assert out.dtype == x.grad.dtype == dtype


@pytest.mark.parametrize(
    ("row", "probabilities"),
    [
        ([-INF, -INF], [0.0, 0.0]),
        ([1.0, 1.0, INF], [0.0, 0.0, 1.0]),
        ([INF, INF, 0.0], [0.5, 0.5, 0.0]),
        ([-INF, 3.0, -INF], [0.0, 1.0, 0.0]),
        ([INF, -INF], [1.0, 0.0]),
    ],
)
def test_infinite_scores_do_not_cause_nan(device, random, row, probabilities):
    x = ta.tensor([row, [0.0] * len(row)], requires_grad=True, device=device)
    y = ta.softmax(x)
    np.testing.assert_array_equal(y.numpy()[0], np.array(probabilities, "float32"))
    logs = ta.log_softmax(x)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(logs.numpy()[0], np.log(probabilities), rtol=1e-6)
    g = ta.tensor(random.standard_normal(y.shape).astype("float32"), device=device)
    for out, cotangent in ((y, g), (ta.logsumexp(x, axis=-1), g[:, 0])):
        (gradient,) = ta.grad(out, x, grad_outputs=cotangent, create_graph=True)
        (second,) = ta.grad(gradient, x, grad_outputs=g)
        assert np.isfinite(gradient.numpy()).all()
        assert np.isfinite(second.numpy()).all()


def test_a_row_of_negative_infinity_has_zero_gradient(device, random):
    x = ta.tensor([[-INF, -INF], [0.0, 1.0]], requires_grad=True, device=device)
    g = ta.tensor(random.standard_normal((2, 2)).astype("float32"), device=device)
    for out, cotangent in ((ta.softmax(x), g), (ta.logsumexp(x, axis=-1), g[:, 0])):
        (gradient,) = ta.grad(out, x, grad_outputs=cotangent)
        assert gradient.numpy()[0].tolist() == [0.0, 0.0]
        assert (gradient.numpy()[1] != 0).all()


def test_nan_affects_only_its_own_row(device):
    x = ta.tensor([[np.nan, 0.0], [0.0, 0.0]], device=device)
    for operation in (ta.softmax, ta.log_softmax):
        assert np.isnan(operation(x).numpy()).tolist() == [[True, True], [False, False]]
    assert np.isnan(ta.logsumexp(x, axis=-1).numpy()).tolist() == [True, False]


def test_the_methods_of_a_tensor_are_the_functions(device, random):
    x = ta.tensor(random.standard_normal((2, 3)), device=device)
    for name in ("softmax", "log_softmax", "logsumexp"):
        method, function = getattr(x, name), getattr(ta, name)
        np.testing.assert_array_equal(method(axis=0).numpy(), function(x, axis=0).numpy())


def test_the_softmax_of_no_scores_is_empty(device):
    x = ta.tensor(np.zeros((2, 0)), requires_grad=True, device=device)
    assert ta.softmax(x).shape == ta.log_softmax(x).shape == (2, 0)
    assert ta.logsumexp(x, axis=1).tolist() == [-np.inf, -np.inf]
    ta.softmax(x).sum().backward()
    assert x.grad.shape == (2, 0)
