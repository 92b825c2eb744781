"""Grad modes: scope, nesting, threads and decorators."""

import asyncio
import threading

import pytest

import tinyattn as ta


@pytest.fixture
def x(device):
    return ta.tensor([1.0, 2.0], requires_grad=True, device=device)


def test_nothing_is_recorded_inside_no_grad(x):
    with ta.no_grad():
        y = x * 2
        assert not ta.is_grad_enabled()
    assert not y.requires_grad and y.is_leaf and (x * 2).requires_grad


def test_modes_nest_and_are_restored_after_an_exception(x):
    with ta.no_grad():
        with ta.enable_grad():
            assert (x * 2).requires_grad
            with ta.set_grad_enabled(False):
                assert not (x * 2).requires_grad
            assert (x * 2).requires_grad
        assert not (x * 2).requires_grad
    with pytest.raises(ZeroDivisionError), ta.no_grad():
        raise ZeroDivisionError
    assert ta.is_grad_enabled()


@pytest.mark.parametrize("decorate", [ta.no_grad, ta.no_grad(), ta.set_grad_enabled(False)])
def test_each_mode_decorates_with_and_without_parentheses(decorate):
    @decorate
    def flag(outer, *, inner=1):
        "What it says."
        return ta.is_grad_enabled(), outer, inner

    assert flag(1, inner=2) == (False, 1, 2)
    assert flag.__name__ == "flag" and flag.__doc__ == "What it says."
    assert ta.is_grad_enabled()


def test_a_decorated_function_may_call_itself():
    @ta.no_grad()
    def depth(n):
        assert not ta.is_grad_enabled()
        return n if n == 0 else depth(n - 1)

    assert depth(5) == 0 and ta.is_grad_enabled()


def test_one_context_can_be_entered_again_inside_itself():
    mode = ta.no_grad()
    with mode, mode:
        assert not ta.is_grad_enabled()
    assert ta.is_grad_enabled()


def test_a_new_thread_records_independently_of_its_parent():
    seen = []
    with ta.no_grad():
        thread = threading.Thread(target=lambda: seen.append(ta.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_asynchronous_tasks_do_not_see_each_others_mode():
    async def without(gate):
        with ta.no_grad():
            gate.set()
            await asyncio.sleep(0)
            return ta.is_grad_enabled()

    async def with_recording(gate):
        await gate.wait()
        return ta.is_grad_enabled()

    async def both():
        gate = asyncio.Event()
        return await asyncio.gather(without(gate), with_recording(gate))

    assert asyncio.run(both()) == [False, True]


def test_backward_under_no_grad_still_works_and_records_nothing(x):
    y = (x * x).sum()
    with ta.no_grad():
        y.backward()
    assert x.grad.tolist() == [2, 4] and not x.grad.requires_grad


def test_a_backward_is_recorded_only_with_create_graph(x):
    (x * x).sum().backward()
    assert not x.grad.requires_grad
    x.grad = None
    (x * x).sum().backward(create_graph=True)
    assert x.grad.requires_grad
    (second,) = ta.grad(x.grad.sum(), x)
    assert second.tolist() == [2, 2]


def test_threads_share_one_change_of_mode():
    change = ta.no_grad()
    inside, left = threading.Event(), threading.Event()
    seen = []

    def outlast():  # enters while the main thread is inside, and leaves after it
        with change:
            inside.set()
            left.wait(5)
        seen.append(ta.is_grad_enabled())

    thread = threading.Thread(target=outlast)
    with change:
        thread.start()
        inside.wait(5)
    left.set()
    thread.join()
    assert ta.is_grad_enabled() and seen == [True]
