"""``grad`` and the Hessian-vector product."""

import numpy as np
import pytest

import tinyattn as ta


@pytest.fixture
def leaf(device):
    def make(values):
        return ta.tensor(np.array(values, np.float64), requires_grad=True, device=device)

    return make


def test_grad_returns_a_tuple_and_changes_no_grad_attribute(leaf):
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    gradients = ta.grad((x * y).sum(), [x, y])
    assert isinstance(gradients, tuple)
    assert [g.tolist() for g in gradients] == [[3, 4], [1, 2]]
    assert x.grad is None and y.grad is None
    assert not any(g.requires_grad for g in gradients)


def test_grad_of_intermediate_results(leaf):
    x = leaf([1.0, 2.0])
    h = x * 3
    y = (h * h).sum()
    at_h, at_x = ta.grad(y, [h, x])
    assert at_h.tolist() == [6, 12] and at_x.tolist() == [18, 36]


def test_only_operations_on_a_path_to_the_inputs_run(leaf):
    x, y = leaf([1.0]), leaf([1.0])
    h = y * y
    out = (x * 2 + h).sum()
    y.data[0] = 5.0  # would be an error on the way to y
    (gradient,) = ta.grad(out, x)
    assert gradient.tolist() == [2]


def test_gradients_of_several_outputs_are_summed(leaf, device):
    x = leaf([1.0, 2.0])
    g = ta.tensor(np.array([1.0, 10.0]), device=device)
    (gradient,) = ta.grad([x * x, x.sum()], x, grad_outputs=[g, None])
    assert gradient.tolist() == [3, 41]
    with pytest.raises(ValueError, match="got 1 grad_outputs for 2 outputs"):
        ta.grad([x * x, x.sum()], x, grad_outputs=[g])


def test_an_unused_input_is_an_error_or_none(leaf):
    x, unused = leaf([1.0]), leaf([1.0])
    with pytest.raises(RuntimeError, match=r"do not depend on input 1 .*allow_unused=True"):
        ta.grad((x * x).sum(), [x, unused])
    gradients = ta.grad((x * x).sum(), [x, unused], allow_unused=True)
    assert gradients[0].tolist() == [2] and gradients[1] is None
    with pytest.raises(RuntimeError, match="input 0 of grad\\(\\) does not require a gradient"):
        ta.grad((x * x).sum(), x.detach())


def test_retain_graph_keeps_the_graph(leaf):
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    ta.grad(y, x, retain_graph=True)
    ta.grad(y, x)
    with pytest.raises(RuntimeError, match="already freed"):
        ta.grad(y, x)


def test_gradients_share_no_memory_with_the_graph(leaf):
    x = leaf([1.0, 2.0])
    y = (x + 0).sum()
    first = ta.grad(y, x, retain_graph=True)[0]
    first.data[0] = 100.0
    assert ta.grad(y, x)[0].tolist() == [1, 1]


def test_the_third_derivative(leaf):
    x = leaf(2.0)
    derivative = x**4
    for expected in (32, 48, 48, 24):
        (derivative,) = ta.grad(derivative, x, create_graph=True)
        assert derivative.item() == pytest.approx(expected)


def quadratic(matrix):
    def f(x):
        return (x * (matrix @ x)).sum() * 0.5

    return f


def test_hvp_is_the_hessian_times_the_vector(device, random):
    matrix = random.standard_normal((4, 4))
    hessian = (matrix + matrix.T) / 2
    v = random.standard_normal(4)
    x = ta.tensor(random.standard_normal(4), device=device)
    product = ta.hvp(quadratic(ta.tensor(matrix, device=device)), x, ta.tensor(v, device=device))
    np.testing.assert_allclose(product.numpy(), hessian @ v)
    assert not product.requires_grad and x.grad is None and not x.requires_grad


def test_hvp_of_several_inputs_includes_the_mixed_terms(device):
    x, y = (ta.tensor(np.array([value]), device=device) for value in (2.0, 3.0))
    v, w = (ta.tensor(np.array([value]), device=device) for value in (1.0, 10.0))
    first, second = ta.hvp(lambda x, y: (x * x * y).sum(), [x, y], [v, w])
    assert first.item() == pytest.approx(2 * 3 * 1 + 2 * 2 * 10)
    assert second.item() == pytest.approx(2 * 2 * 1)


def test_hvp_of_a_linear_function_is_zero(device):
    x = ta.tensor(np.array([1.0, 2.0]), device=device)
    assert ta.hvp(lambda x: (x * 3).sum(), x, x).tolist() == [0, 0]


def test_hvp_refuses_a_direction_of_another_shape(device):
    x = ta.tensor(np.array([1.0, 2.0]), device=device)
    with pytest.raises(ValueError, match="expected those of the inputs"):
        ta.hvp(lambda x: (x * x).sum(), x, ta.tensor([1.0], device=device))


def test_operations_before_an_intermediate_input_are_neither_run_nor_freed(device):
    x = ta.tensor([1.0, 2.0], requires_grad=True, device=device)
    y = x * x
    z = (y * y).sum()
    (first,) = ta.grad(z, y)
    y.backward(first)  # the second half of the way, by hand
    assert first.tolist() == [2, 8] and x.grad.tolist() == [4, 32]


def test_inputs_that_are_not_tensors_raise_or_are_converted(device):
    x = ta.tensor([1.0, 2.0], requires_grad=True, device=device)
    with pytest.raises(TypeError, match=r"output 0 of grad\(\) is a float"):
        ta.grad(3.0, x)
    with ta.device(device):
        product = ta.hvp(lambda x: (x**3).sum(), np.array([1.0, 2.0]), np.array([1.0, 0.0]))
    assert product.tolist() == [6, 0]
