"""The rules of tinyattn.ops.indexing."""

import numpy as np
import pytest

import tinyattn as ta
from tests.gradient import check_gradient
from tinyattn.ops.indexing import scatter

MASK = np.array([[True, False, True, False], [False] * 4, [True, True, False, True]])

# Shape and index.
INDICES = [
    ((3,), 0),
    ((3,), -1),
    ((3,), np.int64(1)),
    ((3, 4), (1, -2)),
    ((3, 4), 1),
    ((3, 4), slice(1, None)),
    ((3, 4), (slice(None), slice(None, None, -1))),
    ((3, 4), (slice(None, None, -2), slice(3, 0, -2))),
    ((3, 4), (Ellipsis, 0)),
    ((3, 4), Ellipsis),
    ((3, 4), ()),
    ((3, 4), None),
    ((3, 4), (slice(None), None, 1)),
    ((3, 4), (None, Ellipsis, None, 2)),
    ((), ()),
    ((), None),
    ((), Ellipsis),
    ((3,), slice(5, 9)),
    ((0, 2), slice(None)),
    ((3,), [0, 0]),
    ((3,), [2, -1, 0, 2]),
    ((3,), []),
    ((3,), [[0, 1], [1, 2]]),
    ((3, 4), ([0, 0, 2], [1, 1, 3])),
    ((3, 4), ([[0], [2]], [1, 1, 3])),
    ((3, 4), (slice(1, None), [0, 0, 3])),
    ((3, 4), (1, [0, 0, 3])),
    ((3, 4), ([0, 1], None, slice(None, None, 2))),
    ((2, 3, 4), ([0, 1, 1], slice(None), [0, 0, 3])),
    ((2, 3, 4), (Ellipsis, [1, 1], [3, -4])),
    ((2, 3, 4), (0, slice(None), [1, 1])),
    ((3,), np.array([True, False, True])),
    ((3,), [True, False, True]),
    ((3, 4), MASK),
    ((3, 4), ~MASK & False),
    ((2, 3, 4), (slice(None), MASK)),
    ((3, 4), (slice(None), np.array([True, False, True, True]))),
    ((3, 4), (np.array([True, False, True]), [0, 3])),
    ((3, 4), (np.array([True, False, True]), 1)),
    ((3, 4), (np.array([True, True, False]), np.array([False, True, False, True]))),
    ((3,), np.array(1)),
    ((3,), np.array([1, 1], np.uint8)),
    ((3,), True),
    ((), np.array(False)),
]


@pytest.mark.parametrize(
    ("shape", "index"), INDICES, ids=lambda value: str(value).replace("\n", "")
)
def test_indexing_equals_numpy_and_gradients_equal_differences(shape, index, device, random):
    data = random.normal(size=shape)
    y = ta.tensor(data, device=device)[index]
    expected = data[index]
    assert y.shape == expected.shape
    np.testing.assert_array_equal(y.numpy(), expected)
    check_gradient(lambda x: ta.square(x[index]), data, device=device)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.bool_])
def test_a_tensor_is_an_index(dtype, device, random):
    data = random.normal(size=(2, 3))
    index = ta.tensor(np.array([0, 1, 1], dtype), device=device)
    host = np.array([0, 1, 1], dtype)
    np.testing.assert_array_equal(ta.tensor(data, device=device)[:, index].numpy(), data[:, host])
    check_gradient(lambda x: x[:, index].square(), data, device=device)


def test_a_comparison_is_an_index(device):
    x = ta.tensor([1.0, -2.0, 3.0], requires_grad=True, device=device)
    x[x > 0].backward(ta.tensor([2.0, 5.0], device=device))
    assert x.grad.tolist() == [2, 0, 5]


def test_an_index_of_a_transposed_tensor(device, random):
    check_gradient(
        lambda x: x.T[[0, 0]][:, ::-1].square(), random.normal(size=(2, 3)), device=device
    )


def test_an_element_used_twice_gets_the_sum_of_the_cotangents(device):
    x = ta.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device)
    x[[0, 2, 0, -3]].backward(ta.tensor([1.0, 10.0, 100.0, 1000.0], device=device))
    assert x.grad.tolist() == [1101, 0, 10]


def test_parts_of_one_tensor_add_up_and_leave_other_cotangents_alone(device, random):
    # The backward pass adds later contributions in place to the sum of the earlier ones: it must own that array.
    def read(x, first):
        whole = x * 1.0
        parts = [whole[0], whole[:, 1], whole[[0, 0, 1]], whole[whole > 0], whole[-1, 0]]
        parts.insert(first, whole)
        total = (whole + whole).sum()
        for factor, part in enumerate(parts, 2):
            total = total + (part * factor).sum()
        return total

    for first in range(6):
        check_gradient(lambda x: read(x, first), random.normal(size=(2, 3)), device=device)  # noqa: B023


def test_parts_leave_the_cotangent_of_a_sum_to_the_other_summand(device):
    x = ta.tensor([1.0, 2.0], requires_grad=True, device=device)
    y = ta.tensor([1.0, 2.0], requires_grad=True, device=device)
    parts = x[0] * 10 + x[[1]].sum() * 100 + x[1:].sum() * 1000
    total = x + y  # hands one cotangent to both
    (total.sum() + parts).backward()
    assert x.grad.tolist() == [11, 1101] and y.grad.tolist() == [1, 1]


def test_the_index_array_may_be_overwritten_before_backward(device):
    # Backward must see the index as it was.
    host = np.array([0, 1])
    x = ta.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device)
    y = x[host]
    host[...] = 2
    y.backward(ta.ones_like(y))
    assert x.grad.tolist() == [1, 1, 0]


@pytest.mark.parametrize("wrong", [3, -4, [0, 3], [-4], (slice(None), 2), (0, [0, 2])])
def test_an_index_out_of_range_is_an_index_error(wrong, device):
    x = ta.ones((3, 2), device=device)
    with pytest.raises(IndexError, match="out of range"):
        x[wrong]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ((0, 0, 0), "3 indices"),
        ((Ellipsis, Ellipsis), "ellipsis"),
        (1.0, "float"),
        ([0.5], "float"),
        ([True, False], "mask"),
        (np.ones((3, 3), bool), "mask"),
        ("a", "integers"),
    ],
)
def test_an_invalid_index_is_an_index_error(wrong, said, device):
    with pytest.raises(IndexError, match=said):
        ta.ones((3, 2), device=device)[wrong]


def test_iteration_unpacking_and_sums_go_through_indexing(device):
    x = ta.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True, device=device)
    first, second = x
    assert (first.tolist(), second.tolist()) == ([1, 2], [3, 4])
    sum(x).backward(ta.tensor([1.0, 10.0], device=device))
    assert x.grad.tolist() == [[1, 10], [1, 10]]
    with pytest.raises(TypeError):
        iter(ta.tensor(1.0, device=device))


@pytest.mark.parametrize(
    ("indices", "axis"),
    [
        (1, None),
        ([5, 0, 5], None),
        (1, 0),
        (-1, 1),
        ([0, 0, 2], 1),
        ([[1, 0], [0, 0]], 0),
        ([], -1),
    ],
)
def test_take(indices, axis, device, random):
    data = random.normal(size=(2, 3))
    y = ta.take(ta.tensor(data, device=device), indices, axis)
    np.testing.assert_array_equal(y.numpy(), np.take(data, np.array(indices, int), axis))
    check_gradient(lambda x: x.take(indices, axis=axis).square(), data, device=device)


def test_take_out_of_range_is_an_index_error(device):
    x = ta.ones((2, 3), device=device)
    with pytest.raises(IndexError, match="3"):
        ta.take(x, [0, 3], axis=1)
    with pytest.raises(IndexError, match="axis 2"):
        ta.take(x, [0], axis=2)


@pytest.mark.parametrize("index", [([0, 0, 2],), (slice(None, None, 2),), (1,)])
def test_scatter_is_the_adjoint_of_indexing(index, device, random):
    # <scatter(a), b> = <a, b[index]> for all a and b: that is the definition.
    b = ta.tensor(random.normal(size=(4, 2)), device=device)
    selected = b[index]
    a = ta.tensor(random.normal(size=selected.shape), device=device)
    on_device = tuple(
        ta.tensor(entry, device=device)._data if isinstance(entry, list) else entry
        for entry in index
    )
    scattered = scatter(a, index=on_device, shape=(4, 2))
    np.testing.assert_allclose((scattered * b).sum().item(), (a * selected).sum().item())


def test_item_assignment_is_an_error_that_names_the_alternatives(device):
    with pytest.raises(TypeError, match=r"where.*\.data"):
        ta.ones(3, device=device)[0] = 2.0


def test_float32_stays_float32_in_both_directions(device):
    x = ta.tensor([1.0, 2.0], requires_grad=True, device=device)
    for y in (x[0], x[[0, 0]], x[::2], x[x > 1]):
        (g,) = ta.grad(y.sum(), x)
        assert y.dtype == g.dtype == np.float32


def test_one_element_is_a_view_too(device):
    x = ta.tensor([1.0, 2.0], device=device)
    x[1].data[...] = 5.0
    assert x.tolist() == [1, 5]


def test_float16_cotangents_of_a_repeated_index_are_summed_in_float32(device):
    x = ta.tensor(np.zeros(2, np.float16), requires_grad=True, device=device)
    y = x[np.zeros(5000, int)]  # counting by ones, float16 ends at 2048
    y.backward(ta.tensor(np.ones(5000, np.float16), device=device))
    assert x.grad.tolist() == [5000, 0] and x.grad.dtype == np.float16
