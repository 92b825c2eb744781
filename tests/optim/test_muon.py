"""Muon: orthogonal updates, concatenated matrices, and wide and tall shapes."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn import optim
from tinyattn.optim.newton_schulz import newton_schulz


def moved(shape, device, gradient, **options):
    parameter = ta.tensor(np.zeros(shape), requires_grad=True, device=device)
    parameter.grad = ta.tensor(gradient, device=device)
    optim.Muon([parameter], lr=1.0, **options).step()
    return parameter.numpy()


@pytest.mark.parametrize("shape", [(4, 4), (4, 12), (12, 4)])
def test_a_step_is_orthogonal_and_as_large_as_the_shape_says(shape, device, random):
    gradient = random.normal(size=shape)
    update = -moved(shape, device, gradient)
    scale = np.sqrt(max(1, shape[1] / shape[0]))  # (in, out): more outputs, larger steps
    values = np.linalg.svd(update / scale)[1]
    assert values.min() > 0.6 and values.max() < 1.3
    assert (update * gradient).sum() > 0


def test_parts_side_by_side_are_made_orthogonal_each_by_itself(device, random):
    gradient = random.normal(size=(4, 12))
    together = moved((4, 12), device, gradient, parts=3)
    apart = [moved((4, 4), device, gradient[:, part : part + 4]) for part in (0, 4, 8)]
    np.testing.assert_allclose(together, np.concatenate(apart, axis=1), atol=1e-12)
    assert np.abs(together - moved((4, 12), device, gradient)).max() > 0.1


def test_parts_must_divide_the_columns():
    with pytest.raises(ValueError, match="parts=3"):
        optim.Muon([ta.tensor([[1.0, 2.0]])], parts=3)


def test_the_momentum_is_nesterovs(device, random):
    first, second = random.normal(size=(2, 3, 3))
    parameter = ta.tensor(np.zeros((3, 3)), requires_grad=True, device=device)
    optimizer = optim.Muon([parameter], lr=1.0, momentum=0.5)
    steps = []
    for gradient in (first, second):
        before = parameter.numpy()
        parameter.grad = ta.tensor(gradient, device=device)
        optimizer.step()
        steps.append(before - parameter.numpy())
    np.testing.assert_allclose(steps[0], newton_schulz(first), atol=1e-6)
    # The momentum is now second + first / 2; looking ahead adds half of it to the gradient.
    expected = newton_schulz(second + 0.5 * (second + 0.5 * first))
    np.testing.assert_allclose(steps[1], expected, atol=1e-6)


def test_a_matrix_without_elements_is_left_alone(device):
    assert moved((0, 3), device, np.zeros((0, 3))).shape == (0, 3)


def test_a_gradient_of_zeros_moves_nothing(device):
    assert np.all(moved((3, 3), device, np.zeros((3, 3))) == 0)


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [("float64", s) for s in (1.0, 1e-6, 1e-9, 1e-12, 1e-200, 1e200)]
    + [("float32", s) for s in (1.0, 1e-25, 1e19, 1e37)],
)
def test_an_update_does_not_depend_on_the_size_of_the_gradient(dtype, scale, device):
    weight = ta.tensor(np.zeros((2, 2)), dtype=dtype, requires_grad=True, device=device)
    weight.grad = ta.tensor(scale * np.diag([3.0, 4.0]), dtype=dtype, device=device)
    optim.Muon([weight], lr=1.0, momentum=0.0).step()
    expected = -np.diag([0.72287617, 1.11920393])
    np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-6)


def test_minimax_polynomials_take_four_iterations_and_constant_ones_five(device, random):
    gradient = random.normal(size=(3, 3))
    for polynomials, steps in (("minimax", 4), ("constant", 5)):
        expected = newton_schulz(gradient, steps, polynomials)
        update = -moved((3, 3), device, gradient, momentum=0.0, polynomials=polynomials)
        np.testing.assert_allclose(update, expected, atol=1e-12)


def test_unknown_polynomials_are_refused_with_the_known_ones(device):
    weight = ta.tensor(np.zeros((2, 2)), requires_grad=True, device=device)
    with pytest.raises(ValueError, match="must be 'constant' or 'minimax', got 'best'"):
        optim.Muon([weight], polynomials="best")
    optimizer = optim.Muon([weight])
    with pytest.raises(ValueError, match="got 3"):
        optimizer.polynomials = 3
    assert optimizer.polynomials == "constant" and optimizer.ns_steps == 5


def test_the_polynomials_are_part_of_the_state():
    weight = ta.tensor(np.zeros((2, 2)), requires_grad=True)
    saved = optim.Muon([weight], polynomials="minimax").state_dict()
    restored = optim.Muon([weight])
    restored.load_state_dict(saved)
    assert (restored.polynomials, restored.ns_steps) == ("minimax", 4)
