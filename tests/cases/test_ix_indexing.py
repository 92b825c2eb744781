"""Hard cases IX: repeated, negative and reversed indices have right gradients; those out of range raise.

IX-07 and IX-08, the scatter-add of the backends, are in tests/backend/test_base.py.
"""

import numpy as np
import pytest

import tinyattn as ta


def test_IX_01_an_index_that_occurs_twice_counts_twice(leaf, equals):
    x = leaf([1.0])
    x[[0, 0]].sum().backward()
    equals(x.grad, [2])
    x = leaf([1.0, 2.0])
    ta.take(x, np.array([1, 1, 0]) if x.device == "cpu" else [1, 1, 0]).sum().backward()
    equals(x.grad, [1, 2])
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    x[[0, 0, 1], [1, 1, 0]].sum().backward()
    equals(x.grad, [[0, 2], [1, 0]])


def test_IX_02_the_first_of_two_duplicates_carries_its_gradient(leaf, equals):
    y = leaf([1.0])
    y[[0, 0]][0].backward()
    equals(y.grad, [1])


@pytest.mark.parametrize("count", [1000, 70000])
def test_IX_04_many_occurrences_of_one_index_are_all_counted(leaf, equals, device, count):
    weight = leaf(np.ones((3, 2)))
    ids = ta.tensor(np.concatenate([np.zeros(count, int), np.ones(count, int)]), device=device)
    ta.embedding(ids, weight, padding_idx=0).sum().backward()
    equals(weight.grad, [[0, 0], [count, count], [0, 0]])
    weight = leaf(np.ones((3, 2)))
    ta.embedding(ids, weight).sum().backward()
    equals(weight.grad, [[count, count], [count, count], [0, 0]])


@pytest.mark.parametrize("wrong", [-1, 3, -4, 1000])
def test_IX_05_a_token_outside_the_vocabulary_is_an_index_error(leaf, device, wrong):
    weight = leaf(np.ones((3, 2)))
    with pytest.raises(IndexError, match=str(wrong)):
        ta.embedding(ta.tensor([0, wrong], device=device), weight)


def test_IX_05_tokens_must_be_whole_numbers(leaf, device):
    weight = leaf(np.ones((3, 2)))
    with pytest.raises((TypeError, IndexError), match="float32"):
        ta.embedding(ta.tensor([0.0, 1.0], device=device), weight)
    with pytest.raises((TypeError, IndexError), match="float"):
        weight[ta.tensor([0.0], device=device)]


@pytest.mark.parametrize("wrong", [3, -4])
def test_IX_05_an_array_index_out_of_range_is_an_index_error_on_every_device(leaf, device, wrong):
    x = leaf([1, 2, 3])
    for index in ([0, wrong], ta.tensor([0, wrong], device=device), wrong):
        with pytest.raises(IndexError, match=str(wrong)):
            x[index]
    with pytest.raises(IndexError, match=str(wrong)):
        ta.take(x, [0, wrong], axis=0)


def test_IX_05_indexing_counts_negative_indices_from_the_end(leaf, equals, device):
    x = leaf([1, 2, 3])
    x[[-1, -3]].sum().backward()
    equals(x.grad, [1, 0, 1])
    x = leaf([1, 2, 3])
    x[ta.tensor([-1, -1], device=device)].sum().backward()
    equals(x.grad, [0, 0, 2])


def test_IX_10_slices_that_run_backwards_and_masks_put_gradients_where_they_read(
    leaf, constant, equals
):
    x = leaf([1, 2, 3, 4])
    (x[::-1][::2] * constant([1, 10])).sum().backward()
    equals(x.grad, [0, 10, 0, 1])
    x = leaf([1, -2, 3])
    x[x > 0].sum().backward()
    equals(x.grad, [1, 0, 1])


INDICES = {
    "an ellipsis and a new axis": (Ellipsis, None, 0),
    "a new axis between slices": (slice(1, None), None, slice(None, None, -2)),
    "a negative step over a whole axis": (slice(None, None, -1),),
    "an empty slice": (slice(2, 2),),
    "a list and a slice": ([0, 1, 1], slice(None, None, 2)),
    "lists around a slice": ([0, 1], slice(None), [3, 3]),
    "two lists that broadcast": ([[0], [1]], [2, 0, 2]),
    "an empty list": ([],),
    "a whole number and a list": (1, [2, 2, 0]),
}


@pytest.mark.parametrize("name", INDICES)
def test_IX_10_every_kind_of_index_agrees_with_numpy(leaf, constant, equals, random, name):
    index = INDICES[name]
    host = random.standard_normal((2, 3, 4))
    x = leaf(host)
    y = x[index]
    expected = host[index]
    equals(y, expected)
    g = random.standard_normal(expected.shape)
    y.backward(constant(g))
    gradient = np.zeros_like(host)
    np.add.at(gradient, index, g)
    equals(x.grad, gradient)


def test_IX_10_a_mask_over_two_axes_selects_rows_forward_and_backward(
    leaf, constant, equals, random, device
):
    host = random.standard_normal((2, 3, 4))
    mask = random.random((2, 3)) > 0.5
    g = random.standard_normal((int(mask.sum()), 4))
    x = leaf(host)
    y = x[ta.tensor(mask, device=device)]
    equals(y, host[mask])
    y.backward(constant(g))
    gradient = np.zeros_like(host)
    gradient[mask] = g
    equals(x.grad, gradient)


def test_IX_11_elements_of_a_tensor_are_not_assigned(leaf):
    z = leaf(np.zeros((5, 5)))
    with pytest.raises(TypeError, match=r"item assignment|\.data"):
        z[[0, 0, 0]] = leaf(np.ones((3, 5)))
