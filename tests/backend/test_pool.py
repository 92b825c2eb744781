"""Pooled memory is reused, but never while a view of it is alive."""

import gc
import os
import threading

import numpy as np
import pytest

from tinyattn.backend import pool

BIG = (300, 500)  # float32: beyond the smallest pooled size


@pytest.fixture(autouse=True)
def empty_pool():
    pool.release()
    yield
    pool.release()


def address(array):
    return array.__array_interface__["data"][0]


def test_the_memory_of_a_deleted_array_is_reused():
    array = pool.empty(BIG)
    before = address(array)
    del array
    assert address(pool.empty(BIG)) == before


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[3:],
        lambda a: a.T,
        lambda a: a.reshape(-1)[5:],
        lambda a: a.view(np.int32)[::2, ::3],
        lambda a: np.asarray(memoryview(a)),
    ],
    ids=["rows", "transposed", "flat", "other dtype", "memoryview"],
)
def test_the_memory_of_a_view_is_not_reused(view):
    array = pool.empty(BIG)
    held = view(array)
    held[...] = 7
    del array
    others = [pool.empty(BIG) for _ in range(4)]
    for other in others:
        other[...] = 1
    assert (held == 7).all()


def test_two_arrays_in_use_share_no_memory():
    arrays = [pool.empty((20_000 + 100 * i,)) for i in range(8)]
    for number, array in enumerate(arrays):
        array[...] = number
    assert all((array == number).all() for number, array in enumerate(arrays))


def test_repeated_allocations_do_not_grow_the_pool():
    def step():
        return [pool.empty((size,)) for size in (20_000, 30_000, 100_000)]

    step()
    held = pool.pooled_bytes()
    for _ in range(5):
        step()
    assert pool.pooled_bytes() == held > 0


def test_release_returns_free_blocks_and_keeps_blocks_in_use():
    used, free = pool.empty(BIG), pool.empty((1000, 1000))
    used[...] = 3
    del free
    before = pool.pooled_bytes()
    assert pool.release() >= 4_000_000
    assert pool.pooled_bytes() < before
    assert (used == 3).all()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), 5, (5,), BIG, (7, 11, 900)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.bool_, np.int64])
def test_shape_dtype_and_order_are_those_asked_for(shape, dtype):
    array = pool.empty(shape, dtype)
    assert array.shape == np.empty(shape).shape and array.dtype == dtype
    assert type(array) is np.ndarray and array.flags.c_contiguous and array.flags.writeable
    assert array.flags.aligned
    array[...] = 1
    assert (array == 1).all()


def test_memory_is_freed_without_the_garbage_collector():
    gc.disable()
    try:
        before = address(pool.empty(BIG))
        assert address(pool.empty(BIG)) == before
    finally:
        gc.enable()


def test_threads_share_the_pool_without_sharing_memory():
    wrong = []

    def work(number):
        for _ in range(200):
            array = pool.empty(BIG)
            array[...] = number
            if not (array[::50, ::50] == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this operating system does not fork")
def test_a_forked_process_does_not_write_into_the_parents_memory():
    array = pool.empty(BIG)
    array[...] = 1
    child = os.fork()
    if child == 0:
        array[...] = 2
        os._exit(0)
    os.waitpid(child, 0)
    assert (array == 1).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this operating system does not fork")
def test_the_pool_of_a_forked_process_is_empty_after_the_reset():
    pool.empty(BIG)  # a block that is free
    child = os.fork()
    if child == 0:
        status = 1
        try:
            pool.reset_after_fork()
            is_empty = pool.pooled_bytes() == 0
            array = pool.empty(BIG)
            status = 0 if is_empty and array.nbytes <= pool.pooled_bytes() else 1
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
