"""Executors do all work once, in order, with BLAS limited, and are bit-identical."""

import multiprocessing
import sys
import threading
import time

import numpy as np
import pytest
import threadpoolctl

import tinyattn as ta
from tinyattn.backend import blas, shared
from tinyattn.train import parallel
from tinyattn.train.parallel import (
    ForkExecutor,
    SerialExecutor,
    ThreadExecutor,
    blas_limit,
    executor,
    make_executor,
)

both_kinds = pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])


@pytest.fixture
def model():
    return ta.nn.Linear(2, 3)


def test_the_default_is_one_worker_for_each_available_core(model, monkeypatch):
    monkeypatch.setattr(parallel, "available_cores", lambda: 3)
    assert make_executor(model).workers == 3


def test_fewer_than_one_worker_is_an_error(model):
    with pytest.raises(ValueError, match="at least 1, got 0"):
        make_executor(model, 0)


def test_one_worker_and_models_on_other_devices_run_in_the_calling_thread(model):
    assert isinstance(make_executor(model, 1), SerialExecutor)
    assert isinstance(make_executor(model.to("strict"), 2), SerialExecutor)


@pytest.mark.skipif(sys.platform != "linux", reason="worker processes: Linux only")
def test_several_workers_are_processes(model):
    chosen = make_executor(model, 2)
    assert isinstance(chosen, ForkExecutor) and chosen.fallback is None


def test_the_thread_executor_has_the_reason_for_the_fallback(model, monkeypatch):
    chosen = make_executor(model, 2, communicator=object())
    assert isinstance(chosen, ThreadExecutor) and chosen.fallback == "MPI processes must not fork"
    monkeypatch.setattr(sys, "platform", "darwin")
    chosen = make_executor(model, 2)
    assert isinstance(chosen, ThreadExecutor) and chosen.fallback == "fork is safe on Linux only"


def threads_of_blas(model, item):
    libraries = threadpoolctl.threadpool_info()
    return max(one["num_threads"] for one in libraries if one["user_api"] == "blas")


@both_kinds
@pytest.mark.parametrize(("count", "threads"), [(1, 4), (3, 1)])
def test_blas_is_limited_in_every_worker_and_restored(
    model, count, threads, processes, monkeypatch, executor_of
):
    monkeypatch.setattr(executor, "available_cores", lambda: 4)
    # Other tests may have loaded a second BLAS.
    monkeypatch.setattr(blas_limit, "_controller", None)
    with threadpoolctl.threadpool_limits(6, user_api="blas"):
        before = threadpoolctl.threadpool_info()
        workers = executor_of(model, count, processes)
        assert workers.map(threads_of_blas, range(3)) == [threads] * 3
        seen = []
        executor_of(model, count).for_each(lambda item: seen.append(threads_of_blas(0, item)), [0])
        assert seen == [threads]
        assert threadpoolctl.threadpool_info() == before


def knows_of_one_thread(model, item):
    return blas.has_one_thread()


@both_kinds
@pytest.mark.parametrize(
    ("count", "cores", "known"), [(1, 1, True), (1, 4, False), (2, 2, True), (2, 4, True)]
)
def test_workers_know_whether_blas_has_one_thread(
    model, count, cores, known, processes, monkeypatch, executor_of
):
    monkeypatch.setattr(executor, "available_cores", lambda: cores)
    workers = executor_of(model, count, processes)
    assert workers.map(knows_of_one_thread, [0, 1]) == [known, known]
    assert not blas.has_one_thread()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_work_is_shared_and_all_of_it_done(model, count, executor_of):
    workers = executor_of(model, count)
    done = np.zeros(50, dtype=int)

    def work(item):
        done[item] += 1

    workers.for_each(work, range(50))
    workers.for_each(work, [])
    assert (done == 1).all()

    def fail(item):
        if item == 20:
            raise ArithmeticError("item 20")

    with pytest.raises(ArithmeticError, match="item 20"):
        workers.for_each(fail, range(50))


def about_the_model(model, item):
    return float(model.weight.numpy()[0, 0]), model.training, item


@both_kinds
@pytest.mark.parametrize("items", [0, 1, 2, 5])
def test_a_map_keeps_the_order_of_its_items(model, items, processes, executor_of):
    model.eval()
    workers = executor_of(model, 3, processes)
    weight = model.weight.numpy()[0, 0]
    assert workers.map(about_the_model, range(items)) == [
        (weight, False, item) for item in range(items)
    ]


def wait_or_fail(model, item):
    seconds, written = item
    if seconds is None:
        raise ArithmeticError("the first item")
    time.sleep(seconds)
    written[...] = True
    return None, {}


@both_kinds
def test_an_error_is_raised_after_all_workers_have_stopped(model, processes, executor_of):
    written = shared.zeros((2,), bool)
    items = [(None, written), (0.2, written[:1]), (0.3, written[1:])]
    with pytest.raises(ArithmeticError, match="the first item"):
        executor_of(model, 3, processes).run(wait_or_fail, items, print)
    assert written.all()


def halves(model, item):
    return item, {parameter: np.full(parameter.shape, item) for parameter in model.parameters()}


@both_kinds
def test_results_are_received_in_the_order_of_the_items(model, processes, executor_of):
    seen = []

    def receive(result):
        value, gradients = result
        seen.append((value, {float(array.flat[0]) for array in gradients.values()}))

    executor_of(model, 3, processes).run(halves, [5.0, 6.0, 7.0], receive)
    assert seen == [(5.0, {5.0}), (6.0, {6.0}), (7.0, {7.0})]


def flags(model, item):
    x = ta.tensor([-1.0], requires_grad=True)
    return (x * 2).requires_grad, float((x * item).item())


@both_kinds
def test_workers_have_the_grad_mode_of_the_caller(model, processes, executor_of):
    workers = executor_of(model, 2, processes)
    assert workers.map(flags, [1, 2]) == [(True, -1), (True, -2)]
    with ta.no_grad():
        assert workers.map(flags, [1, 2]) == [(False, -1), (False, -2)]
    assert workers.map(flags, [1, 2]) == [(True, -1), (True, -2)]


def log_of(model, item):
    return float(ta.log(ta.tensor([item])).item())


@both_kinds
def test_an_anomaly_is_named_by_the_worker_that_finds_it(model, processes, executor_of):
    workers = executor_of(model, 2, processes)
    with ta.detect_anomaly(), pytest.raises(RuntimeError, match="log produced"):
        workers.map(log_of, [1.0, 0.0])
    assert workers.map(log_of, [1.0, 0.0]) == [0, -np.inf]


def adamw(parameters):
    return ta.optim.AdamW(parameters, lr=0.1)


def sgd(parameters):
    return ta.optim.SGD(parameters, lr=0.1, momentum=0.9)


optimizers = pytest.mark.parametrize(
    "make", [adamw, sgd, ta.optim.Muon], ids=["adamw", "sgd", "muon"]
)


@optimizers
def test_parameter_updates_are_bit_identical_for_any_executor(model, make, random, executor_of):
    start = random.standard_normal((10, 100, 90)).astype(np.float32)  # several blocks, and stacks
    gradients = random.standard_normal((3, *start.shape)).astype(np.float32)
    results = []
    for count, processes in ((None, None), (1, False), (3, False), (3, True)):
        parameters = [ta.nn.Parameter(matrix) for matrix in start]
        optimizer = make(parameters)
        workers = count and executor_of(model, count, processes)
        if workers:
            workers.share(optimizer)
        for gradient in gradients:
            for parameter, one in zip(parameters, gradient):
                parameter.grad = ta.tensor(one)
            optimizer.step(workers)
        results.append([parameter.numpy() for parameter in parameters])
    assert not np.array_equal(results[0], start)
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@both_kinds
@optimizers
def test_an_optimizer_that_has_state_is_shared_with_it(make, processes, random, executor_of):
    results = []
    for shared_after in (None, 2):
        model = ta.nn.Linear(40, 90, bias=False)
        model.weight.data = np.linspace(-1, 1, 3600, dtype=np.float32).reshape(40, 90)
        optimizer = make(model.parameters())
        workers = executor_of(model, 2, processes)
        for number in range(4):
            if number == shared_after:
                workers.share(optimizer)
            rows = np.random.default_rng(number).standard_normal((40, 90)).astype(np.float32)
            model.weight.grad = ta.tensor(rows)
            optimizer.step(workers if shared_after and number >= shared_after else None)
        workers.close()
        optimizer.step()  # alone again
        results.append(model.weight.numpy())
    np.testing.assert_array_equal(*results)


@both_kinds
def test_close_stops_the_workers_and_a_later_call_starts_new_ones(model, processes, executor_of):
    def count():
        return threading.active_count() + len(multiprocessing.active_children())

    before = count()
    workers = executor_of(model, 3, processes)
    assert count() == before
    for _ in range(2):
        workers.map(about_the_model, range(3))
        assert before < count() <= before + 2  # an idle thread serves again
        workers.close()
        assert count() == before
