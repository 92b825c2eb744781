"""Hard cases GR: every gradient is complete and counted once; in-place changes that backward would read are errors."""

import gc
import sys
import weakref

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.train.evaluation import evaluate


def test_GR_01_a_value_used_twice_is_complete_before_it_propagates(leaf, equals):
    x = leaf(2.0)
    h = x * x
    y = h * h + h
    y.backward()
    equals(y, 20)
    equals(x.grad, 36)


def test_GR_02_a_value_reached_on_three_paths_counts_three_times(leaf, equals):
    x, a = leaf(1.0), leaf(1.0)
    xa = x * a
    f = x * xa + (x * x) * a + x * xa
    f.backward()
    equals(f, 3)
    equals(x.grad, 6)


def test_GR_04_a_second_backward_is_an_error_or_doubles_where_the_graph_was_retained(leaf, equals):
    a, b, d = leaf(3.0), leaf(2.0), leaf(1.0)
    e = (a + b) * d
    e.backward()
    with pytest.raises(RuntimeError, match="freed"):
        e.backward()
    equals(a.grad, 1)
    equals(d.grad, 5)

    a, b, d = leaf(3.0), leaf(2.0), leaf(1.0)
    e = (a + b) * d
    e.backward(retain_graph=True)
    e.backward()
    equals(a.grad, 2)
    equals(d.grad, 10)


def test_GR_05_two_losses_over_a_shared_part_add_up(leaf, equals):
    t = leaf(1.0)
    k = 2 * t
    first, second = 2 * k, 3 * k
    first.backward(retain_graph=True)
    equals(t.grad, 4)
    second.backward()
    equals(t.grad, 10)


def test_GR_05_a_shared_part_that_was_freed_is_an_error_not_silence(leaf):
    t = leaf(1.0)
    k = t * t
    first, second = k * k, k * 3
    first.backward()
    with pytest.raises(RuntimeError, match="freed"):
        second.backward()


def test_GR_07_the_gradient_of_a_sum_can_be_added_to(leaf, equals):
    x = leaf([1, 2, 3])
    (x.sum() + (x * x).sum()).backward()
    equals(x.grad, [3, 5, 7])
    x.grad.data[0] = 0.0  # the user's own: writable, and of one element
    equals(x.grad, [0, 5, 7])


def test_GR_08_a_chain_of_20000_operations_needs_no_recursion(leaf, equals):
    limit = sys.getrecursionlimit()
    x = leaf(1.0)
    y = x
    for _ in range(20000):
        y = y + 1
    y.backward()
    equals(y, 20001)
    equals(x.grad, 1)
    del y
    assert sys.getrecursionlimit() == limit


def test_GR_10_the_arrays_of_a_step_die_with_its_loss(leaf):
    w, x = leaf(np.ones((2, 3))), leaf(np.ones(3))
    alive = []

    def watch(tensor):
        alive.extend([weakref.ref(tensor), weakref.ref(tensor._data)])
        return tensor

    gc.collect()
    gc.disable()
    try:
        for _ in range(100):
            product = watch(w @ x)
            loss = watch((watch(product * product)).sum())
            loss.backward()
            del product, loss
            assert [reference for reference in alive if reference() is not None] == []
    finally:
        gc.enable()


def test_GR_11_no_grad_on_a_generator_holds_inside_and_does_not_leak():
    @ta.no_grad()
    def flags():
        for _ in range(3):
            yield ta.is_grad_enabled()

    outside, inside = [], []
    for flag in flags():
        inside.append(flag)
        outside.append(ta.is_grad_enabled())
    assert inside == [False, False, False]
    assert outside == [True, True, True]


def test_GR_11_a_generator_keeps_its_protocol_under_no_grad():
    @ta.no_grad()
    def echo():
        received = []
        try:
            while True:
                received.append(((yield ta.is_grad_enabled()), ta.is_grad_enabled()))
        except KeyError:
            yield ta.is_grad_enabled()
        return received

    generator = echo()
    assert next(generator) is False
    assert generator.send("a") is False
    assert generator.throw(KeyError) is False
    with pytest.raises(StopIteration) as stop:
        next(generator)
    assert stop.value.value == [("a", False)]
    assert ta.is_grad_enabled()


def test_GR_13_building_the_decorator_changes_nothing():
    switch = ta.set_grad_enabled(False)
    decorated = switch(lambda: ta.is_grad_enabled())
    assert ta.is_grad_enabled()
    assert decorated() is False
    assert ta.is_grad_enabled()

    @ta.no_grad()
    def fails():
        assert not ta.is_grad_enabled()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert ta.is_grad_enabled()


class DropsHalf(ta.nn.Module):
    """Drops while in training; ``loss`` is what the test wants to happen in evaluation."""

    def __init__(self, device, loss):
        self.dropout = ta.nn.Dropout(0.5)
        self.frozen = ta.nn.Dropout(0.5)
        self.scale = ta.nn.Parameter(ta.tensor(1.0, device=device))
        self.loss = loss
        self.frozen.eval()

    def forward(self, x):
        return self.frozen(self.dropout(x)) * self.scale

    def drops(self):
        return 0 in self(ta.tensor(np.ones(1000), device=self.device)).numpy()


def test_GR_14_evaluation_gives_every_module_its_own_mode_back(device):
    dropped = []

    def loss(inputs, targets):
        dropped.append(model.drops())
        return model.scale

    model = DropsHalf(device, loss)
    assert evaluate(model, np.arange(33), 8) == 1.0
    assert dropped and not any(dropped)
    assert model.training and model.dropout.training and model.drops()
    assert not model.frozen.training  # it was in evaluation before, and stays so

    model.eval()
    evaluate(model, np.arange(33), 8)
    assert not model.training


def test_GR_14_evaluation_that_raises_gives_the_modes_back_too(device):
    def fails(inputs, targets):
        raise ZeroDivisionError

    model = DropsHalf(device, fails)
    with pytest.raises(ZeroDivisionError):
        evaluate(model, np.arange(33), 8)
    assert model.training and model.drops() and not model.frozen.training
    assert ta.is_grad_enabled()


def test_GR_16_augmented_assignment_leaves_the_other_name_its_value(leaf, equals):
    a = original = leaf([1, 2, 3])
    b = a
    a += 1
    equals(b, [1, 2, 3])
    equals(a, [2, 3, 4])
    (b * a).sum().backward()
    equals(original.grad, [3, 5, 7])


def test_GR_17_an_unused_element_leaves_the_others_alone(leaf, constant, equals):
    w = leaf([1, 1, 1])
    y = w / constant([1, 0, 1])
    assert y.tolist() == [1, np.inf, 1]
    y[0].backward()
    gradient = w.grad.numpy()
    assert gradient[0] == 1 and gradient[2] == 0
    assert np.isnan(gradient[1])  # 0 / 0, as documented in div
