"""Hard cases NP: tensors and NumPy's scalars or arrays give tensors, in either order; Python's protocols work."""

import numpy as np
import pytest

import tinyattn as ta


@pytest.mark.parametrize("scalar", [np.float64(2), np.float32(2), np.int64(2), 2, 2.0, True + True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_NP_01_a_numpy_scalar_times_a_tensor_is_a_tensor_of_the_tensors_dtype(
    leaf, equals, scalar, dtype
):
    for product in (lambda t: scalar * t, lambda t: t * scalar):
        t = leaf([1, 2], dtype)
        y = product(t)
        assert type(y) is ta.Tensor and y.dtype == dtype
        equals(y, [2, 4])
        y.sum().backward()
        assert t.grad.dtype == dtype
        equals(t.grad, [2, 2])


@pytest.mark.parametrize(
    "function",
    [
        lambda s, t: s + t,
        lambda s, t: s - t,
        lambda s, t: s / t,
        lambda s, t: s**t,
        lambda s, t: t**s,
        lambda s, t: t / s,
        lambda s, t: ta.maximum(s, t),
        lambda s, t: ta.where(t > 1, t, s),
        lambda s, t: ta.clip(t, s, None),
        lambda s, t: t.mean(),
        lambda s, t: t.std(),
        lambda s, t: ta.gelu(t),
        lambda s, t: ta.softmax(t),
    ],
)
def test_NP_01_float32_stays_float32(leaf, function):
    t = leaf([1, 2], np.float32)
    y = function(np.float64(2), t)
    assert y.dtype == np.float32
    y.sum().backward()
    assert t.grad.dtype == np.float32


def test_NP_02_an_array_on_the_left_of_a_tensor_makes_a_tensor(leaf, equals):
    t = leaf([1, 2])
    left = t.data * 0 + 1  # an array of t's own device
    for y, gradient in ((left * t, [1, 1]), (left - t, [-1, -1]), (left + t, [1, 1])):
        assert type(y) is ta.Tensor
        equals(ta.grad(y.sum(), [t])[0], gradient)
    assert (left == t).tolist() == [True, False] and not isinstance(left == t, ta.Tensor)
    assert (left < t).tolist() == [False, True] and not isinstance(left < t, ta.Tensor)


def test_NP_02_a_matrix_on_the_left_of_a_tensor_makes_a_tensor(leaf, constant, equals):
    t = leaf([1, 2])
    left = constant([[1, 2], [3, 4]]).data
    y = left @ t
    assert type(y) is ta.Tensor
    equals(y, [5, 11])
    y.sum().backward()
    equals(t.grad, [4, 6])


def test_NP_02_a_host_array_meets_a_tensor_on_the_host_only(leaf, device):
    t = leaf([1, 2])
    if device == "cpu":
        assert type(np.ones(2) * t) is ta.Tensor
        assert type(np.eye(2) @ t) is ta.Tensor
        return
    for operation in (lambda: np.ones(2) * t, lambda: t + np.ones(2), lambda: np.eye(2) @ t):
        with pytest.raises(TypeError):
            operation()


def test_NP_04_tensors_are_compared_by_identity(leaf, equals):
    a, b = leaf([1, 1]), leaf([1, 1])
    (a.sum() + 2 * b.sum()).backward()
    equals(a.grad, [1, 1])
    equals(b.grad, [2, 2])
    assert a in [b, a] and a not in [b]
    assert len({a, b, a}) == 2 and {a: 1, b: 2}[b] == 2
    assert [b, a].index(a) == 1


def test_NP_05_truth_length_iteration_and_sum_work_as_for_arrays(leaf, equals):
    with pytest.raises(ValueError, match="ambiguous"):
        bool(leaf([1, 2]))
    assert bool(leaf(0.0)) is False and bool(leaf([3.0])) is True
    with pytest.raises(TypeError):
        len(leaf(1.0))
    with pytest.raises(TypeError):
        list(leaf(1.0))
    t = leaf([1, 2])
    assert len(t) == 2 and [item.item() for item in t] == [1, 2]
    total = sum(t)
    equals(total, 3)
    total.backward()
    equals(t.grad, [1, 1])
    assert float(leaf([2.5])) == 2.5 and int(leaf(2.0)) == 2
