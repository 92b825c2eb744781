"""Hard cases BC: gradients have their inputs' shapes after broadcasting, reductions and transposes, also if empty."""

import numpy as np
import pytest

import tinyattn as ta


def test_BC_01_an_axis_added_by_broadcasting_is_gone_from_the_gradient(leaf, equals):
    a, b = leaf([1]), leaf([[1, 1]])
    (a * b).sum().backward()
    equals(a.grad, [2])
    equals(b.grad, [[1, 1]])


def test_BC_02_gradients_are_summed_over_expanded_axes(leaf, equals):
    a, b = leaf([2]), leaf(np.arange(20).reshape(5, 4))
    (a * b).sum().backward()
    equals(a.grad, [190])
    equals(b.grad, np.full((5, 4), 2))
    c, d = leaf([[1], [2], [3], [4]]), leaf([[10, 20, 30, 40]])
    (c * d).sum().backward()
    equals(c.grad, [[100]] * 4)
    equals(d.grad, [[10, 10, 10, 10]])


@pytest.mark.parametrize(
    "reduce", [lambda x: x.sum(), lambda x: x.mean(), lambda x: x.max(), lambda x: x.sum(axis=())]
)
def test_BC_04_a_number_without_axes_can_be_reduced(leaf, equals, reduce):
    x = leaf(3.0)
    y = reduce(x)
    equals(y, 3)
    y.backward()
    equals(x.grad, 1)


def test_BC_05_a_column_against_a_row_is_an_error_in_a_loss(leaf, constant):
    prediction, target = leaf([[1], [2], [3]]), constant([1, 2, 3])
    with pytest.raises(ValueError, match=r"\(3, 1\).*\(3,\)"):
        ta.mse_loss(prediction, target)
    assert ta.mse_loss(prediction, constant([[1], [2], [3]])).item() == 0


def test_BC_07_both_operands_of_an_addition_may_be_broadcast(leaf, constant, equals):
    x, label = constant([[1, 2, 3], [4, 5, 6]]), constant([[1], [2]])
    w, b = leaf([[1], [0], [-1]]), leaf([[0, 1, 2]])
    loss = ((x @ w + b - label) ** 2).sum()
    loss.backward()
    equals(loss, 43)
    equals(w.grad, [[-84], [-114], [-144]])
    equals(b.grad, [[-14, -10, -6]])


def test_BC_08_several_axes_are_put_back_where_they_were(leaf, constant, equals):
    weight = constant([1, 2, 3])
    rows = np.broadcast_to(np.arange(3.0)[:, None], (2, 3, 4))
    x = leaf(np.zeros((2, 3, 4)))
    (x.sum(axis=(0, 2)) * weight).sum().backward()
    equals(x.grad, rows + 1)
    x = leaf(np.zeros((2, 3, 4)))
    (x.mean(axis=(-1, 0)) * weight).sum().backward()
    equals(x.grad, (rows + 1) / 8)


@pytest.mark.parametrize("axis", [(-2, -1), (-1, -2), (1, 0), (-1, 0), (0, -1), (1, -2)])
@pytest.mark.parametrize("name", ["sum", "mean", "var", "max", "min", "prod", "logsumexp"])
def test_BC_08_negative_axes_in_any_order_mean_what_numpy_means(leaf, equals, random, axis, name):
    host = random.standard_normal((2, 3))
    x = leaf(host)
    whole, part = getattr(ta, name)(x), getattr(ta, name)(x, axis=axis)
    equals(part, whole.numpy())
    part.backward()
    expected = ta.grad(whole, [x])[0]
    equals(x.grad, expected.numpy())


def test_BC_10_a_cycle_of_three_axes_is_inverted_not_repeated(leaf, constant, equals):
    host = np.arange(24.0).reshape(3, 4, 2)
    for axes in ((1, 2, 0), (-2, -1, 0), (1, -1, -3)):
        x = leaf(np.zeros((2, 3, 4)))
        (x.transpose(axes) * constant(host)).sum().backward()
        equals(x.grad, host.transpose(2, 0, 1))
        assert x.grad.numpy()[0, 1, 2] == 12 and x.grad.numpy()[1, 0, 1] == 3
    x = leaf(np.zeros((2, 4, 3)))
    (x.transpose() * constant(host)).sum().backward()
    equals(x.grad, host.T)
    x = leaf(np.zeros((2, 3, 4)))
    (x.transpose(1, 2, 0) * constant(host)).sum().backward()
    equals(x.grad, host.transpose(2, 0, 1))


def test_BC_11_a_broadcast_against_nothing_has_gradient_zero(leaf, equals):
    x, b = leaf(np.zeros((0, 3))), leaf(np.ones(3))
    (x + b).sum().backward()
    equals(b.grad, [0, 0, 0])
    equals(x.grad, np.zeros((0, 3)))
    a, empty = leaf([7]), leaf(np.zeros(0))
    (a * empty).sum().backward()
    equals(a.grad, [0])
    equals(empty.grad, np.zeros(0))


def test_BC_13_the_branches_of_where_are_broadcast(leaf, equals, device):
    condition = ta.tensor([[True, False, True], [False, False, True]], device=device)
    a, b = leaf([[1], [2]]), leaf([10, 20, 30])
    y = ta.where(condition, a, b)
    equals(y, [[1, 20, 1], [10, 20, 2]])
    y.sum().backward()
    equals(a.grad, [[2], [1]])
    equals(b.grad, [1, 2, 0])
    assert condition.grad is None


def test_BC_14_one_tensor_twice_in_a_concatenation_gets_both_gradients(leaf, constant, equals):
    x = leaf([1, 2])
    (ta.concatenate([x, x]) * constant([1, 2, 3, 4])).sum().backward()
    equals(x.grad, [4, 6])
    x = leaf([1, 2])
    (ta.stack([x, x]) * constant([[1, 2], [3, 4]])).sum().backward()
    equals(x.grad, [4, 6])
