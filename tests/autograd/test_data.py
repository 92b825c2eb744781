"""``tensor.data``: reading, writing and assigning."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.backend import get_backend


@pytest.fixture
def leaf(device):
    return ta.tensor([1.0, 2.0], requires_grad=True, device=device)


def write_item(x):
    x.data[0] = 5.0


def write_through_a_view(x):
    x.data[1:][0] = 5.0


def write_in_place(x):
    x.data *= 5.0


def fill(x):
    x.data.fill(5.0)


def assign(x):
    x.data = [5.0, 5.0]


@pytest.mark.parametrize("write", [write_item, write_through_a_view, write_in_place, fill, assign])
def test_backward_raises_after_a_write_to_data_of_a_live_graph(leaf, write):
    y = (leaf * leaf).sum()
    write(leaf)
    with pytest.raises(RuntimeError, match="was changed after it was used"):
        y.backward()
    (leaf * leaf).sum().backward()  # a new forward pass sees the new content
    np.testing.assert_array_equal(leaf.grad.numpy(), 2 * leaf.numpy())


def test_a_write_that_no_graph_needs_is_allowed(leaf):
    y = (leaf * 3.0).sum()  # its backward reads no input
    write_item(leaf)
    y.backward()
    assert leaf.grad.tolist() == [3.0, 3.0]


def test_reading_data_is_not_a_write(leaf):
    y = (leaf * leaf).sum()
    scaled = leaf.data * 2 + leaf.data[0]
    scaled += 1
    assert scaled.shape == (2,)
    y.backward()
    assert leaf.grad.tolist() == [2.0, 4.0]


def test_assigned_data_is_copied(leaf, device):
    mine = get_backend(device).asarray(np.array([3.0, 4.0], np.float32))
    leaf.data = mine
    mine[0] = 9.0
    assert leaf.tolist() == [3.0, 4.0]
    other = ta.tensor([7.0, 8.0], device=device)
    leaf.data = other
    other.data[0] = 9.0
    assert leaf.tolist() == [7.0, 8.0]


def test_assigning_data_of_another_shape_raises(leaf):
    for wrong in (1.0, [1.0], [[1.0, 2.0]]):
        with pytest.raises(ValueError, match=r"\(2,\).*nothing is broadcast"):
            leaf.data = wrong
    assert leaf.tolist() == [1.0, 2.0]


def test_assigned_data_keeps_the_dtype(leaf):
    leaf.data = np.array([3, 4]) if leaf.device == "cpu" else [3, 4]
    assert leaf.dtype == np.float32 and leaf.tolist() == [3.0, 4.0]
