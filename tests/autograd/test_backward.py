"""Backward: complete cotangents, ownership of buffers, freeing, hooks, depth, threads."""

import copy
import gc
import threading
import weakref

import numpy as np
import pytest

import tinyattn as ta
from tests.gradient import check_gradient
from tinyattn.autograd import gradient_map
from tinyattn.autograd.backward import unbroadcast


@pytest.fixture
def leaf(device):
    def make(values):
        return ta.tensor(np.array(values, np.float64), requires_grad=True, device=device)

    return make


def test_a_cotangent_returned_for_two_inputs_is_not_shared(leaf):
    x, f = leaf([1.0]), leaf([2.0])
    h = x + f
    (h + x * 10).sum().backward()
    assert f.grad.tolist() == [1] and x.grad.tolist() == [11]


def test_gradients_of_different_leaves_share_no_memory(leaf):
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (x + y).sum().backward()
    x.grad.data[0] = 100.0
    assert y.grad.tolist() == [1, 1]
    z = leaf([1.0, 2.0])
    cotangent = ta.tensor(np.ones(2), device=z.device)
    z.backward(cotangent)
    z.grad.data[0] = 100.0
    assert cotangent.tolist() == [1, 1]


def test_the_callers_cotangent_is_not_modified(leaf, device):
    x = leaf([1.0, 2.0])
    g = ta.tensor(np.array([1.0, 10.0]), device=device)
    y = x + x
    (y + y).backward(g)
    assert g.tolist() == [1, 10] and x.grad.tolist() == [4, 40]


def test_gradients_accumulate_only_in_leaves_and_retained_tensors(leaf):
    x = leaf([1.0, 2.0])
    for _ in range(2):
        h = x * x
        y = h * 3
        y.retain_grad()
        y.sum().backward()
        assert h.grad is None and y.grad.tolist() == [1, 1]
    assert x.grad.tolist() == [12, 24]


def test_a_retained_gradient_is_complete(leaf):
    x = leaf([1.0, 2.0])
    h = x * 2
    h.retain_grad()
    (h * h + h).sum().backward()
    assert h.grad.tolist() == [5, 9]
    with pytest.raises(RuntimeError, match="requires a gradient"):
        ta.tensor([1.0]).retain_grad()


def test_an_unused_branch_has_no_effect(leaf):
    x = leaf([1.0, 2.0])
    h = x * x
    unused = h * 100  # noqa: F841
    h.sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_a_diamond_of_many_layers_is_walked_once_per_operation(leaf):
    x = leaf(1.0)
    y = x
    for _ in range(60):  # 2**60 paths
        y = y * 0.5 + y * 0.5
    y.backward()
    assert x.grad.item() == 1


def test_backward_needs_a_cotangent_of_the_outputs_shape(leaf):
    x = leaf([1.0, 2.0])
    with pytest.raises(ValueError, match=r"shape \(2,\) needs a cotangent"):
        (x * 2).backward()
    with pytest.raises(ValueError, match=r"shape \(3,\), expected that of the output, \(2,\)"):
        (x * 2).backward(ta.tensor([1.0, 1.0, 1.0], device=x.device))
    (x * 2)[:1].backward()  # one element is a single number
    assert x.grad.tolist() == [2, 0]
    (x * 2).backward([1, 1])  # numbers will do
    assert x.grad.tolist() == [4, 2]


def test_backward_without_a_recorded_operation_raises(device):
    x = ta.tensor([1.0], device=device)
    with pytest.raises(RuntimeError, match="requires_grad=True on a leaf"):
        (x * 2).sum().backward()
    x.requires_grad = True
    with ta.no_grad():
        y = x * 2
    with pytest.raises(RuntimeError, match="does not depend on any tensor"):
        y.backward()


def test_a_gradient_has_the_dtype_of_its_input(device):
    x = ta.tensor(np.ones(2, np.float32), requires_grad=True, device=device)
    y = ta.tensor(np.ones(2, np.float64), requires_grad=True, device=device)
    product = x * y
    assert product.dtype == np.float64
    product.sum().backward()
    assert x.grad.dtype == np.float32 and y.grad.dtype == np.float64
    x.grad = None
    (x * 2).backward(ta.tensor(np.ones(2), device=device))
    assert x.grad.dtype == np.float32


def test_a_freed_graph_raises_and_a_retained_one_runs_again(leaf):
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4, 8]
    with pytest.raises(RuntimeError, match="already freed"):
        y.backward()
    assert x.grad.tolist() == [4, 8]


def test_an_error_in_the_walk_leaves_every_gradient_as_it_was(leaf):
    x, z = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    x.grad = ta.tensor(np.array([5.0, 5.0]), device=x.device)
    h = z * z
    y = (x * 2 + h).sum()
    z.data[0] = 9.0
    with pytest.raises(RuntimeError, match="changed after it was used"):
        y.backward()
    assert x.grad.tolist() == [5, 5] and z.grad is None


def test_writes_to_results_are_detected(leaf):
    x = leaf([1.0, 2.0])
    y = ta.exp(x)  # its backward reads its own output
    z = y.sum()
    y.detach().data[0] = 3.0
    with pytest.raises(RuntimeError, match="the output of exp was changed"):
        z.backward()


def test_a_write_through_a_reshaped_or_sliced_tensor_is_detected(leaf):
    for view in (lambda x: x.reshape(2, 1), lambda x: x[1:], lambda x: x.T):
        x = leaf([1.0, 2.0])
        y = (x * x).sum()
        part = view(x.detach())
        part.data[...] = 7.0
        with pytest.raises(RuntimeError, match="changed after it was used"):
            y.backward()


def test_hooks_get_the_complete_gradient_and_can_replace_it(leaf):
    x = leaf([1.0, 2.0])
    h = x * 2
    seen = []
    handles = [
        h.register_hook(lambda g: seen.append(g.tolist())),
        h.register_hook(lambda g: g * 10),
        h.register_hook(lambda g: seen.append(g.tolist())),
        x.register_hook(lambda g: g + 1),
    ]
    (h * h + h).sum().backward()
    assert seen == [[5, 9], [50, 90]]
    assert x.grad.tolist() == [101, 181]
    for handle in handles:
        handle.remove()
        handle.remove()
    x.grad = None
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_a_hook_that_keeps_the_gradient_keeps_a_value_that_does_not_change(leaf):
    x = leaf([1.0])
    kept = []
    x.register_hook(kept.append)
    for _ in range(3):
        (x * 2).sum().backward()
    assert [g.tolist() for g in kept] == [[2], [2], [2]]
    assert x.grad.tolist() == [6]


def test_a_hook_that_returns_another_shape_raises(leaf):
    x = leaf([1.0, 2.0])
    x.register_hook(lambda g: [1.0])
    with pytest.raises(ValueError, match=r"shape \(1,\), expected \(2,\)"):
        (x * 2).sum().backward()
    with pytest.raises(RuntimeError, match="requires a gradient"):
        ta.tensor([1.0]).register_hook(print)


DEPTH = 100_000


@pytest.mark.parametrize("end", ["backward", "drop"])
def test_a_chain_of_100000_operations_is_built_walked_and_dropped(end):
    x = ta.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(DEPTH):
        y = y + 1.0
    with pytest.raises(RuntimeError, match="only leaf tensors can be deep-copied"):
        copy.deepcopy(y)
    if end == "backward":
        y.backward()
        assert x.grad.item() == 1
    first = weakref.ref(y)
    del y
    assert first() is None


def test_a_deep_chain_is_differentiated_twice_without_recursion():
    x = ta.tensor(np.float64(1.0), requires_grad=True, dtype=np.float64)
    y = x
    for _ in range(3000):
        y = y * 1.0
    (first,) = ta.grad(y * y, x, create_graph=True)
    (second,) = ta.grad(first, x)
    assert first.item() == 2 and second.item() == 2


def test_graphs_are_freed_without_the_garbage_collector(leaf, device):
    gc.collect()
    gc.disable()
    try:
        x = leaf(np.ones(3))
        for create_graph in (False, True):
            h = ta.exp(x * 2)
            loss = (h * h).sum()
            dead = [weakref.ref(h), weakref.ref(loss), weakref.ref(h._node)]
            loss.backward(create_graph=create_graph)
            x.grad = None
            del h, loss
            assert [reference() for reference in dead] == [None] * 3
    finally:
        gc.enable()


def test_arrays_that_backward_does_not_read_are_not_saved(leaf):
    x, y = leaf(np.ones(3)), leaf(np.ones(3))
    h = x * 2
    gone = weakref.ref(h)
    total = (h + y).sum()  # addition reads neither of its inputs
    del h
    assert gone() is None
    total.backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_gradient_map_returns_arrays_and_changes_no_grad_attribute(leaf):
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    gradients = gradient_map((x * y + x).sum())
    assert set(gradients) == {x, y} and x.grad is None and y.grad is None
    assert gradients[x].tolist() == [4, 5] and gradients[y].tolist() == [1, 2]


def test_threads_run_backward_in_parallel(leaf):
    x = leaf(np.arange(4.0))
    found = [None] * 8

    def work(number):
        with ta.no_grad() if number % 2 else ta.enable_grad():
            y = (x * float(number)).sum()
            for _ in range(50):
                y = y + (x * x).sum() * 0
        found[number] = gradient_map(y)[x].tolist() if number % 2 == 0 else y.requires_grad

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[0.0] * 4, False, [2.0] * 4, False, [4.0] * 4, False, [6.0] * 4, False]
    assert ta.is_grad_enabled() and x.grad is None


def test_unbroadcast_sums_over_added_and_stretched_axes(random):
    g = random.standard_normal((2, 3, 4))
    np.testing.assert_allclose(unbroadcast(g, (3, 1), "op"), g.sum((0, 2), keepdims=True)[0])
    np.testing.assert_allclose(unbroadcast(g, (), "op"), g.sum())
    assert unbroadcast(g, (2, 3, 4), "op").shape == (2, 3, 4)
    for wrong in ((5,), (2, 3, 4, 1), (2, 2, 4)):
        with pytest.raises(RuntimeError, match="the backward of op returned a cotangent of shape"):
            unbroadcast(g, wrong, "op")


def test_a_function_of_many_operations_agrees_with_differences_to_second_order(device, random):
    x, w, b = (random.standard_normal(shape) for shape in ((3, 4), (4, 2), (2,)))

    def network(x, w, b):
        h = ta.tanh(x @ w + b)
        return ta.softmax(h * h + h[:, ::-1], axis=-1) * h.sum(axis=0)

    check_gradient(network, x, w, b, device=device)


def test_the_checker_of_these_tests_catches_wrong_gradients(device, random):
    x = random.standard_normal(5)

    def wrong_slope(x):  # the value of tanh with the slope of the identity
        return x + (ta.tanh(x) - x).detach()

    def wrong_curvature(x):  # the right slope, but constant
        return (x * (1 - ta.tanh(x.detach()) ** 2)) + (
            ta.tanh(x) - x * (1 - ta.tanh(x) ** 2)
        ).detach()

    with pytest.raises(AssertionError, match="gradient of input 0 differs"):
        check_gradient(wrong_slope, x, device=device)
    check_gradient(wrong_curvature, x, device=device, order=1)
    with pytest.raises(AssertionError, match="second-order gradient of input 0 differs"):
        check_gradient(wrong_curvature, x, device=device)


def test_no_two_arrays_of_a_gradient_map_share_memory(leaf):
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    gradients = gradient_map(x + y, ta.tensor([1.0, 10.0], device=x.device))
    gradients[x] *= 100  # as a caller does who scales gradients in place
    assert gradients[y].tolist() == [1, 10]


def test_a_cotangent_from_outside_has_the_tensors_dtype_and_device(leaf):
    x = leaf([1.0, 2.0])
    elsewhere = ta.tensor([1.0, 1.0], device="strict" if x.device == "cpu" else "cpu")
    with pytest.raises(TypeError, match=r"the cotangent is on .* nothing is moved silently"):
        (x * 2).backward(elsewhere)
    handle = x.register_hook(lambda g: elsewhere)
    with pytest.raises(TypeError, match="the gradient that a hook returned is on"):
        (x * 2).sum().backward()
    handle.remove()
    y = ta.tensor([1.0, 2.0], requires_grad=True, device=x.device)
    y.register_hook(lambda g: g.astype(np.float64))
    (y * 2).sum().backward()
    assert y.grad.dtype == np.float32


@pytest.mark.parametrize("value", [0, np.zeros(2)], ids=["number", "array"])
def test_a_grad_attribute_that_is_not_a_tensor_raises(leaf, value):
    x = leaf([1.0, 2.0])
    x.grad = value
    with pytest.raises(TypeError, match=r"\.grad .* was set to .* expected a Tensor or None"):
        (x * 2).sum().backward()


@pytest.mark.filterwarnings("error")
def test_a_gradient_that_is_summed_out_of_range_prints_no_warning(device):
    x = ta.tensor([1.0], requires_grad=True, device=device)
    for _ in range(2):
        (x * 3e38).sum().backward()
    assert x.grad.tolist() == [np.inf]
