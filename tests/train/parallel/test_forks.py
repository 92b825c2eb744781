"""Worker processes get the caller's parameters, modes and flags, return gradients, and report errors."""

import errno
import functools
import multiprocessing
import os
import signal
import sys
import time

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.autograd.modes import watch_operations
from tinyattn.backend import pool, shared
from tinyattn.train.parallel import SerialExecutor, WorkerError, forks, make_executor
from tinyattn.train.parallel.index_queue import IndexQueue
from tinyattn.train.step import BatchStep

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="worker processes: Linux only")


class Scaled(ta.nn.Module):
    """loss = mean of w x, for x its inputs; what the process knows of itself, as errors on demand."""

    def __init__(self):
        self.weight = ta.nn.Parameter(np.array([1.0, 2.0]))
        self.bias = ta.nn.Parameter(np.zeros(2))
        self.dropout = ta.nn.Dropout(0.5)

    def loss(self, inputs, targets):
        if (inputs == 13).any():
            raise Unlucky("thirteen", inputs.shape)
        if (inputs == 9).any() and multiprocessing.parent_process() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return (self.weight * inputs.astype("float64")).mean() + 0 * self.bias.sum()


class Unlucky(Exception):
    """Cannot be unpickled from its arguments alone."""

    def __init__(self, word, shape):
        super().__init__(f"{word} in {shape}")


@pytest.fixture
def model():
    return Scaled()


@pytest.fixture
def workers(model, executor_of):
    return executor_of(model, 3, True)


@pytest.fixture
def step(workers):
    return BatchStep(workers)


def batch(*rows):
    ids = np.array(rows)
    return ids, np.zeros_like(ids)


def about_the_process(model, item):
    return os.getpid(), model.training, model.dropout.training, model.bias.requires_grad, item


def test_each_worker_is_a_process_and_the_caller_is_the_first(workers):
    found = workers.map(about_the_process, ["a", "b", "c"])
    assert [item for *_, item in found] == ["a", "b", "c"]
    assert found[0][0] == os.getpid()
    assert len({process for process, *_ in found}) == 3
    assert workers.map(about_the_process, ["a", "b", "c"]) == found  # the same ones again


def test_workers_receive_values_train_eval_modes_and_requires_grad_flags(step, model, workers):
    inputs, targets = batch([1, 2], [3, 4], [5, 6])
    assert step(inputs, targets, key=0) == pytest.approx(np.mean(inputs * [1.0, 2.0]))
    model.weight.data = np.array([10.0, -1.0])
    model.dropout.eval()
    model.bias.requires_grad = False
    assert step(inputs, targets, key=0) == pytest.approx(np.mean(inputs * [10.0, -1.0]))
    assert model.bias.grad is None
    for _, training, dropout_training, wanted, _ in workers.map(about_the_process, range(3)):
        assert (training, dropout_training, wanted) == (True, False, False)


def test_gradients_are_copies_that_the_next_step_does_not_overwrite(step, model):
    step(*batch([1, 2], [3, 4], [5, 6]), key=0)
    held = model.weight.grad
    before = held.numpy()
    np.testing.assert_allclose(before, np.array([9, 12]) / 6)
    step(*batch([7, 7], [7, 7], [7, 7]), key=0)
    np.testing.assert_array_equal(held.numpy(), before)


@pytest.mark.parametrize("position", [0, 1, 2])
def test_an_error_in_a_worker_is_raised_in_the_caller_with_its_traceback(step, position):
    inputs, targets = batch([1, 2], [3, 4], [5, 6])
    wrong = inputs.copy()
    wrong[position] = 13
    with pytest.raises((Unlucky, RuntimeError), match="thirteen") as caught:
        step(wrong, targets, key=0)
    if position:
        assert "Unlucky" in str(caught.value)
        assert "in loss" in str(caught.value.__cause__)
    assert np.isfinite(step(inputs, targets, key=0))  # and it can go on


def test_a_dead_worker_is_reported_without_a_deadlock(step):
    inputs, targets = batch([1, 2], [3, 4], [5, 6])
    step(inputs, targets, key=0)
    inputs[2] = 9
    for _ in range(2):
        with pytest.raises(WorkerError, match="worker process 2 was terminated by signal 9"):
            step(inputs, targets, key=0)


def test_a_failed_fork_is_reported(step, monkeypatch):
    def fork():
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(os, "fork", fork)
    with pytest.raises(WorkerError, match=r"Cannot allocate memory.*fewer workers"):
        step(*batch([1, 2], [3, 4], [5, 6]), key=0)


def test_replies_to_an_interrupted_call_are_discarded(model, executor_of):
    step = BatchStep(executor_of(model, 2, True))
    step(*batch([1, 2], [3, 4]), key=0)
    original = model.loss

    def interrupted(inputs, targets):
        raise KeyboardInterrupt

    model.loss = interrupted  # here; the copy answers
    with pytest.raises(KeyboardInterrupt):
        step(*batch([1, 2], [300, 400]), key=0)
    model.loss = original
    inputs, targets = batch([1, 2], [5, 6])
    assert step(inputs, targets, key=0) == pytest.approx(np.mean(inputs * [1.0, 2.0]))


def test_a_changed_dtype_is_an_error(step, model):
    inputs, targets = batch([1, 2], [3, 4], [5, 6])
    step(inputs, targets, key=0)
    model.to("float32")
    with pytest.raises(
        RuntimeError, match=r"shape \(2,\) \(float64\) now .*float32.*create the executor"
    ):
        step(inputs, targets, key=0)


def write_process(arrays):
    time.sleep(0.02)  # or the first to come would take all
    numbers, (process,) = arrays
    numbers += 1
    process[...] = os.getpid()


def items_in(zeros):
    return [(zeros((3,), np.float32), [zeros((), np.int64)]) for _ in range(6)]


def test_all_processes_write_to_shared_arrays(workers):
    items = items_in(shared.zeros)
    workers.for_each(write_process, items)
    workers.for_each(write_process, [])
    assert all((numbers == 1).all() for numbers, _ in items)
    assert len({int(process) for _, (process,) in items}) == 3


def test_writing_to_private_arrays_is_an_error_before_any_call(workers):
    written = np.zeros(8)
    for function, items in (
        (write_process, items_in(np.zeros)),
        (functools.partial(write_into, out=written), range(8)),
        (write_item, [{"out": written, "place": place} for place in range(8)]),
    ):
        with pytest.raises(TypeError, match=r"private memory: call share\(optimizer\)"):
            workers.for_each(function, items)
    np.testing.assert_array_equal(written, 0)


def test_an_optimizer_that_is_not_shared_is_an_error(workers):
    parameter = ta.nn.Parameter(np.ones(1 << 18))
    parameter.grad = ta.tensor(np.ones(1 << 18))
    with pytest.raises(TypeError, match="private memory"):
        ta.optim.AdamW([parameter]).step(workers)


def write_item(item):
    time.sleep(0.01)
    item["out"][item["place"]] += 1


def write_into(place, out):
    time.sleep(0.01)
    out[place] += 1


def test_more_items_than_the_queue_capacity_are_all_processed(workers):
    written = shared.zeros((IndexQueue.capacity + 1,), np.float32)
    workers.for_each(functools.partial(write_place, written), range(written.size))
    workers.for_each(functools.partial(write_place, written), range(IndexQueue.capacity))
    np.testing.assert_array_equal(written, [2] * IndexQueue.capacity + [1])


def write_place(written, place):
    written[place] += 1


def test_shared_memory_allocated_after_the_fork_is_an_error(workers):
    workers.map(about_the_process, range(3))
    written = shared.zeros((8,), np.float32)
    with pytest.raises(RuntimeError, match="allocated after this process was forked"):
        workers.for_each(functools.partial(write_place, written), range(8))


def test_indices_left_in_the_queue_are_discarded(workers):
    written = shared.zeros((6,), np.float32)
    with pytest.raises(IndexError):
        workers.for_each(functools.partial(write_place, written), [100] * 6)
    written[...] = 0
    workers.for_each(functools.partial(write_place, written), [0, 1])
    np.testing.assert_array_equal(written, [1, 1, 0, 0, 0, 0])


@pytest.mark.parametrize("make", [ta.optim.SGD, ta.optim.AdamW])
def test_an_optimizer_that_is_shared_after_the_first_step_is_updated_by_the_workers(
    step, workers, model, make
):
    ids = batch([1, 2], [3, 4], [5, 6])
    first = step(*ids, key=0)
    big = ta.nn.Parameter(np.ones(1 << 18))
    optimizer = make([*model.parameters(), big], lr=0.1)
    step = BatchStep(workers, [optimizer])
    for _ in range(2):
        big.grad = ta.tensor(np.ones(1 << 18))
        step(*ids, key=0)
        optimizer.step(workers)
    assert step(*ids, key=0) < first
    assert len(set(big.tolist())) == 1 and big.numpy()[0] < 1
    assert shared.is_shared(model.weight._data)
    assert shared.is_shared(model.weight.grad._data)


def test_float16_parameters_have_gradients_of_their_own_type(step):
    parameter = ta.nn.Parameter(np.ones(3, np.float16))
    assert ta.optim.AdamW([parameter]).gradient_arrays() == {}


def unspeakable(model, item):
    return lambda: 0


def test_a_reply_that_cannot_be_pickled_is_an_error(workers):
    with pytest.raises(Exception, match="local object"):
        workers.map(unspeakable, range(3))
    assert len(workers.map(about_the_process, range(3))) == 3


def test_a_dead_worker_is_replaced_in_the_next_call(step):
    inputs, targets = batch([1, 2], [3, 4], [5, 6])
    with pytest.raises(WorkerError):
        step(np.where(inputs == 6, 9, inputs), targets, key=0)
    assert np.isfinite(step(inputs, targets, key=0))


def test_an_interruption_while_workers_are_forked_leaves_none(step, monkeypatch):
    made = []
    original = forks._Worker

    def interrupted(*arguments):
        if made:
            raise KeyboardInterrupt
        made.append(original(*arguments))
        return made[0]

    inputs, targets = batch([1, 2], [3, 4], [5, 6])
    monkeypatch.setattr(forks, "_Worker", interrupted)
    with pytest.raises(KeyboardInterrupt):
        step(inputs, targets, key=0)
    monkeypatch.setattr(forks, "_Worker", original)
    assert step(inputs, targets, key=0) == pytest.approx(np.mean(inputs * [1.0, 2.0]))


def test_a_worker_forked_while_a_thread_has_locked_the_pool_works(workers):
    with pool._lock:
        assert len(workers.map(allocating, range(3))) == 3


def allocating(model, item):
    return multiprocessing.parent_process() is None or pool.empty((1 << 16,)).size


def in_daemon(pipe):
    workers = make_executor(Scaled(), 2)
    pipe.send([process for process, *_ in workers.map(about_the_process, range(2))])


def test_a_daemon_process_falls_back_to_threads():
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    daemon = context.Process(target=in_daemon, args=(there,), daemon=True)
    daemon.start()
    there.close()  # or a daemon that fails would be waited for
    assert here.recv() == [daemon.pid] * 2
    daemon.join()


def test_watching_operations_of_workers_is_an_error(workers):
    with watch_operations(print), pytest.raises(RuntimeError, match="cannot be watched"):
        workers.map(about_the_process, range(3))
    assert len(workers.map(about_the_process, range(3))) == 3


def test_dropout_and_tied_weights_are_those_of_one_process(executor_of):
    def gradients(step):
        loss = step(ids, ids[:, ::-1].copy(), key=5)
        return loss, {name: p.grad.numpy() for name, p in step.model.named_parameters()}

    def make():
        ta.manual_seed(1)
        config = ta.models.GPTConfig.gpt2(
            vocabulary_size=7, block_size=6, layers=1, heads=2, dim=8, dropout=0.3
        )
        return ta.models.GPT(config)

    ids = np.random.default_rng(0).integers(0, 7, (4, 6))
    by_threads = gradients(BatchStep(executor_of(make(), 2)))
    by_processes = gradients(BatchStep(executor_of(make(), 2, True)))
    assert by_threads[0] == by_processes[0]
    for name, gradient in by_threads[1].items():
        np.testing.assert_array_equal(by_processes[1][name], gradient, err_msg=name)
    whole = BatchStep(SerialExecutor(make().eval()))
    assert whole(ids, ids, key=5) != by_threads[0]
