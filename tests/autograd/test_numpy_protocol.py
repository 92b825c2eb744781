"""NumPy functions without an equivalent operation: arrays in, arrays out, and no silently cut graph."""

import numpy as np
import pytest

import tinyattn as ta

OTHERS = {
    "np.linalg.norm": lambda x: np.linalg.norm(x),
    "np.isnan": lambda x: np.isnan(x),
    "np.floor": lambda x: np.floor(x),
    "np.sort": lambda x: np.sort(x),
    "np.median": lambda x: np.median(x),
    "np.outer": lambda x: np.outer(x, x),
    "np.allclose": lambda x: np.allclose(x, x),
    "np.hstack": lambda x: np.hstack([x, x]),
    "np.interp": lambda x: np.interp(0.5, x, x),
    "np.add.reduce": lambda x: np.add.reduce(x),
    "np.multiply.outer": lambda x: np.multiply.outer(x, x),
    "np.exp": lambda x: np.exp(x, dtype=np.float64),
    "np.add": lambda x: np.add(x, x, out=np.empty(2, np.float32)),
    "np.floor_divide": lambda x: np.ones(2) // x,
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_function_without_an_operation_raises_if_a_gradient_is_required(name):
    x = ta.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(TypeError, match=rf"^{name} got a Tensor.*x\.numpy\(\)"):
        OTHERS[name](x)


@pytest.mark.parametrize("name", OTHERS)
def test_without_a_gradient_it_computes_with_arrays(name):
    array = np.array([1.0, 2.0], np.float32)
    expected = OTHERS[name](array)
    for x in (ta.tensor(array), ta.tensor(array, requires_grad=True).detach()):
        found = OTHERS[name](x)
        assert not isinstance(found, ta.Tensor)
        np.testing.assert_array_equal(found, expected)
    with ta.no_grad():
        np.testing.assert_array_equal(OTHERS[name](ta.tensor(array, requires_grad=True)), expected)


def test_a_tensor_on_a_device_is_not_converted_implicitly():
    with pytest.raises(TypeError, match=r"\.numpy\(\)"):
        np.linalg.norm(ta.ones(2, device="strict"))


def test_a_first_training_loop_by_hand(device):
    p = ta.tensor([1.0, 2.0], requires_grad=True, device=device)
    (p * p).sum().backward()
    p.data -= 0.1 * p.grad
    np.testing.assert_allclose(p.numpy(), [0.8, 1.6], rtol=1e-6)
    assert type(p) is ta.Tensor and p.requires_grad and p.is_leaf and p.grad is not None
    p.data += p.grad
    p.data *= ta.tensor([2.0, 2.0], device=device)
    np.testing.assert_allclose(p.numpy(), [5.6, 11.2], rtol=1e-6)


def test_a_graph_that_needs_the_old_numbers_sees_the_update():
    p = ta.tensor([1.0, 2.0], requires_grad=True)
    loss = (p * p).sum()
    p.data -= ta.ones(2)
    with pytest.raises(RuntimeError, match="changed after it was used"):
        loss.backward()


def test_a_tensor_as_out_raises():
    with pytest.raises(TypeError, match=r"write to its \.data"):
        np.add(np.ones(2), np.ones(2), out=ta.ones(2))


def test_an_array_as_out_is_written_to_without_a_gradient():
    array = np.ones(2)
    array += ta.tensor([1.0, 2.0])
    assert array.tolist() == [2, 3]
    np.add.at(array, [0, 0], ta.tensor([1.0, 1.0]))
    assert array.tolist() == [4, 3]
