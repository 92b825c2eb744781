"""Embedding lookup and its adjoint."""

import numpy as np
import pytest

import tinyattn as ta
from tests.gradient import check_gradient
from tinyattn.ops.embedding import sum_by_id


@pytest.fixture
def ids(device):
    return lambda values: ta.tensor(np.array(values), device=device)


@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (2, 0)])
def test_values_and_gradients(device, random, ids, shape):
    weight = random.standard_normal((5, 3))
    chosen = random.integers(0, 5, shape)
    out = ta.embedding(ids(chosen), ta.tensor(weight, device=device))
    np.testing.assert_array_equal(out.numpy(), weight[chosen])
    check_gradient(lambda w: ta.embedding(ids(chosen), w * w), weight, device=device)


def test_a_row_used_twice_gets_the_sum_of_the_cotangents(device, random, ids):
    weight = ta.tensor(np.ones((4, 2)), requires_grad=True, device=device)
    g = random.standard_normal((5, 2))
    ta.embedding(ids([2, 0, 2, 3, 2]), weight).backward(ta.tensor(g, device=device))
    expected = [g[1], np.zeros(2), g[0] + g[2] + g[4], g[3]]
    np.testing.assert_allclose(weight.grad.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("rows", [3, 600])
def test_many_ids_in_a_small_and_in_a_large_table(device, random, ids, rows):
    chosen = random.integers(0, rows, 2000)
    g = random.standard_normal((2000, 2))
    expected = np.zeros((rows, 2))
    np.add.at(expected, chosen, g)
    weight = ta.tensor(np.zeros((rows, 2)), requires_grad=True, device=device)
    ta.embedding(ids(chosen), weight).backward(ta.tensor(g, device=device))
    np.testing.assert_allclose(weight.grad.numpy(), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("padding_idx", [2, -2])
def test_the_padding_row_gets_no_gradient_of_either_order(device, random, ids, padding_idx):
    weight = ta.tensor(random.standard_normal((4, 2)), requires_grad=True, device=device)
    chosen = ids([2, 1, 2])
    out = ta.embedding(chosen, weight, padding_idx=padding_idx)
    np.testing.assert_array_equal(out.numpy(), weight.numpy()[[2, 1, 2]])
    (gradient,) = ta.grad((out**3).sum(), weight, create_graph=True)
    assert gradient.numpy()[2].tolist() == [0.0, 0.0]
    assert (gradient.numpy()[1] != 0).all()
    (second,) = ta.grad(gradient.sum(), weight)
    np.testing.assert_allclose(second.numpy()[1], 6 * weight.numpy()[1], rtol=1e-12)
    assert not second.numpy()[[0, 2, 3]].any()


@pytest.mark.parametrize("padding_idx", [None, 1])
def test_the_sum_by_id_is_differentiable_twice(device, random, ids, padding_idx):
    x, chosen = random.standard_normal((4, 2)), ids([1, 0, 1, 2])
    check_gradient(
        lambda x: sum_by_id(x * x, chosen, rows=3, padding_idx=padding_idx), x, device=device
    )


@pytest.mark.parametrize("wrong", [-1, 3, 100])
def test_an_id_out_of_range_is_an_index_error_that_names_it(device, ids, wrong):
    weight = ta.tensor(np.ones((3, 2)), device=device)
    with pytest.raises(IndexError, match=f"id {wrong}: .*0 .. 2"):
        ta.embedding(ids([0, wrong]), weight)


@pytest.mark.parametrize("wrong", [[0.0, 1.0], [True, False]])
def test_ids_must_be_integers(device, ids, wrong):
    weight = ta.tensor(np.ones((3, 2)), device=device)
    with pytest.raises(IndexError, match="integers"):
        ta.embedding(ids(wrong), weight)


def test_ids_may_be_a_list_or_of_any_integer_dtype(device, ids):
    weight = ta.tensor([[1.0], [2.0], [3.0]], device=device)
    assert ta.embedding([2, 0], weight).tolist() == [[3.0], [1.0]]
    for dtype in (np.uint8, np.int32, np.uint64):
        assert ta.embedding(ids(np.array([2, 0], dtype)), weight).tolist() == [[3.0], [1.0]]


def test_a_float16_gradient_of_many_small_parts_does_not_stall(device, ids):
    weight = ta.tensor(np.zeros((1, 1), "float16"), requires_grad=True, device=device)
    ta.embedding(ids(np.zeros(4096, int)), weight).sum().backward()
    assert weight.grad.dtype == "float16"
    assert weight.grad.item() == 4096.0  # adding ones one by one in float16 ends at 2048
