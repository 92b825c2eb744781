"""Tensor: construction, attributes, devices, and Python protocols."""

import copy
import pickle

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.backend import get_backend


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1.0, np.float32),
        ([1.0, 2.0], np.float32),
        ([1, 2], np.int64),
        ([True, False], np.bool_),
        (np.ones(2), np.float64),
        (np.ones(2, np.float16), np.float16),
        (np.float64(1.0), np.float32),
        ([np.float32(1.0), np.float32(2.0)], np.float32),
        (np.arange(2, dtype=np.int32), np.int32),
    ],
)
def test_an_array_keeps_its_dtype_and_python_floats_become_float32(device, data, dtype):
    if isinstance(data, np.float64):
        data = float(data)
    tensor = ta.tensor(data, device=device)
    assert tensor.dtype == dtype and tensor.device == device
    np.testing.assert_array_equal(tensor.numpy(), np.asarray(data))


def test_the_requested_dtype_is_used(device):
    for data in (1.5, [1.5], np.ones(1), ta.tensor([1.0], device=device)):
        assert ta.tensor(data, dtype=np.float64, device=device).dtype == np.float64
        assert ta.Tensor(data, dtype="float16", device=device).dtype == np.float16


def test_the_data_is_copied(device):
    host = np.ones(2)
    tensor = ta.tensor(host, device=device)
    host[0] = 5
    again = ta.tensor(tensor)
    tensor.data[1] = 7
    assert tensor.tolist() == [1, 7] and again.tolist() == [1, 1]
    out = tensor.numpy()
    out[0] = 9
    assert tensor.tolist() == [1, 7]


def test_a_tensor_made_of_a_tensor_stays_on_its_device(device):
    tensor = ta.tensor([1.0], device=device)
    assert ta.tensor(tensor).device == device
    assert ta.tensor(tensor.data).device == device
    assert ta.tensor(tensor, device="cpu").device == "cpu"


@pytest.mark.parametrize("data", ["abc", [[1.0], [1.0, 2.0]], None, object(), {"a": 1}, [None]])
def test_data_that_is_not_numeric_is_a_type_error(device, data):
    with pytest.raises(TypeError, match="cannot make a tensor"):
        ta.tensor(data, device=device)


def test_shape_and_size(device):
    tensor = ta.tensor(np.zeros((2, 3, 4)), device=device)
    assert (tensor.shape, tensor.ndim, tensor.size, len(tensor)) == ((2, 3, 4), 3, 24, 2)
    assert ta.tensor(1.0, device=device).shape == ()


def test_leaves_and_results(device):
    x = ta.tensor([1.0], requires_grad=True, device=device)
    y = x * 2
    assert x.is_leaf and x.requires_grad and not y.is_leaf and y.requires_grad
    assert (ta.tensor([1.0], device=device) * 2).is_leaf
    x.requires_grad = False
    assert not (x * 2).requires_grad
    with pytest.raises(RuntimeError, match="detach"):
        y.requires_grad = False


def test_a_detached_tensor_shares_memory_and_no_graph(device):
    x = ta.tensor([1.0, 2.0], requires_grad=True, device=device)
    y = x * x
    detached = y.detach()
    assert not detached.requires_grad and detached.is_leaf
    detached.data[0] = 100.0
    assert y.tolist() == [100, 4]
    alias = x.detach()
    z = (x * x).sum()
    alias.data[0] = 3.0  # x's own memory, so that the graph of z must notice
    with pytest.raises(RuntimeError, match="changed after it was used"):
        z.backward()


def test_item_needs_one_element(device):
    assert ta.tensor([[2.5]], device=device).item() == 2.5
    assert isinstance(ta.tensor(2, device=device).item(), int)
    with pytest.raises(ValueError, match=r"one element, got shape \(2,\)"):
        ta.tensor([1.0, 2.0], device=device).item()


def test_moving_between_devices_and_dtypes_keeps_the_gradient(device):
    x = ta.tensor([1.0, 2.0], requires_grad=True, device="cpu")
    y = x.to(device)
    assert y.device == device and y.tolist() == [1, 2]
    z = y.to(np.float64)
    assert z.dtype == np.float64 and z.device == device
    back = (z * z).to("cpu")
    assert back.device == "cpu"
    back.backward(ta.tensor(np.array([1.0, 10.0])))
    assert x.grad.device == "cpu" and x.grad.dtype == np.float32
    assert x.grad.tolist() == [2, 40]
    assert y.cpu().device == "cpu"


def test_comparisons_are_arrays_of_the_device_without_gradient(device):
    x = ta.tensor([1.0, 2.0, 3.0], requires_grad=True, device=device)
    y = ta.tensor([3.0, 2.0, 1.0], device=device)
    backend = get_backend(device)
    for result, expected in (
        (x < y, [True, False, False]),
        (x <= y, [True, True, False]),
        (x > 2, [False, False, True]),
        (x >= 2, [False, True, True]),
        (x == y, [False, True, False]),
        (x != y, [True, False, True]),
        (2 < x, [False, False, True]),
    ):
        assert isinstance(result, backend.array_type) and result.dtype == np.bool_
        assert backend.to_host(result).tolist() == expected
    assert (x == None) is False and (x != None) is True  # noqa: E711
    assert (x == "x") is False


def test_repr_shows_values_dtype_device_and_origin(device):
    x = ta.tensor(np.array([1.0, 2.0]), requires_grad=True, device=device)
    text = repr(x)
    assert text.startswith("Tensor([1., 2.]") and "float64" in text and "requires_grad=True" in text
    assert (device in text) == (device != "cpu")
    assert "made_by=mul" in repr(x * 2)
    assert f"{ta.tensor(1.5, device=device):.2f}" == "1.50"


def test_a_leaf_can_be_deep_copied_and_a_result_refuses(device):
    x = ta.tensor([1.0, 2.0], requires_grad=True, device=device)
    (x * x).sum().backward()
    copied = copy.deepcopy(x)
    assert copied.requires_grad and copied.grad.tolist() == [2, 4]
    copied.data[0] = 5
    copied.grad.data[0] = 5
    assert x.tolist() == [1, 2] and x.grad.tolist() == [2, 4]
    with pytest.raises(RuntimeError, match=r"only leaf tensors.*detach"):
        copy.deepcopy(x * 2)


def test_a_tensor_is_an_index_only_if_it_is_one_whole_number(device):
    assert [10, 20, 30][ta.tensor(1, device=device)] == 20
    with pytest.raises(TypeError, match="cannot be an index"):
        [10, 20][ta.tensor(1.0, device=device)]


def test_only_host_tensors_convert_to_numpy_implicitly(device):
    x = ta.tensor([1.0, 2.0], device=device)
    if device == "cpu":
        assert np.asarray(x).tolist() == [1, 2]
        return
    with pytest.raises(TypeError, match=r"\.numpy\(\)"):
        np.asarray(x)


def test_a_result_is_not_pickled_with_its_graph(device):
    x = ta.tensor([1.0], requires_grad=True, device=device)
    for function in (pickle.dumps, copy.copy):
        with pytest.raises(RuntimeError, match=r"only leaf tensors .* made by mul: use .detach"):
            function(x * 2)
    assert pickle.loads(pickle.dumps((x * 2).detach())).tolist() == (x * 2).tolist()


def test_the_default_device_moves_no_tensor_that_another_is_made_of():
    x = ta.tensor([1.0], device="cpu")
    with ta.device("strict"):
        assert ta.tensor(x).device == "cpu" and ta.tensor([1.0]).device == "strict"


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([None, 1])], ids=["text", "objects"])
def test_an_array_that_is_not_numeric_raises(array):
    with pytest.raises(TypeError, match="expected numbers"):
        ta.tensor(array)


def test_a_list_of_tensors_that_require_a_gradient_raises(device):
    x = ta.tensor(1.0, requires_grad=True, device=device)
    with pytest.raises(TypeError, match="use stack"):
        ta.tensor([x, x])


def test_logic_on_boolean_tensors_gives_plain_arrays(device):
    x, y = (ta.tensor([True, a], device=device) for a in (True, False))
    for result, expected in (
        (~y, [False, True]),
        (x & y, [True, False]),
        (y | x._data, [True, True]),
        (x._data ^ y, [False, True]),
    ):
        assert not isinstance(result, ta.Tensor) and result.tolist() == expected


def test_an_empty_tensor_is_found_in_a_list(device):
    x, y = ta.zeros(0, device=device), ta.zeros(0, device=device)
    assert x in [y, x] and x not in [y]


def test_tensors_on_different_devices_are_not_compared():
    x, y = ta.ones(2, device="cpu"), ta.ones(2, device="strict")
    for compare in (lambda: x > y, lambda: y == x, lambda: y <= x):
        with pytest.raises(TypeError, match="nothing is moved silently"):
            compare()
