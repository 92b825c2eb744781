"""Worker processes are closed with their executor, ignore signals that the first process handles, and end with it."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest

import tinyattn as ta
from tinyattn.train.parallel import ForkExecutor, forks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="worker processes: Linux only")


@pytest.fixture
def model():
    return ta.nn.Linear(2, 2)


@pytest.fixture
def workers(model, executor_of):
    return executor_of(model, 3, True)


def process_and_item(model, item):
    return os.getpid(), item


def test_no_descriptor_or_process_is_leaked(model):
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    before, children = descriptors(), set(multiprocessing.active_children())
    for closed in (True, False) * 3:
        workers = ForkExecutor(model, 3)
        workers.map(process_and_item, range(3))
        if closed:
            workers.close()
        del workers
    deadline = time.monotonic() + 10
    while set(multiprocessing.active_children()) - children and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not set(multiprocessing.active_children()) - children
    assert descriptors() <= before


def test_a_deleted_executor_stops_its_workers_while_another_exists(model):
    first, second = (ForkExecutor(model, 2) for _ in range(2))
    (_, (copy, *_)) = first.map(process_and_item, range(2))
    second.map(process_and_item, range(2))
    del first
    deadline = time.monotonic() + 10
    while is_alive(copy) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(copy)
    second.close()


NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU")


@pytest.mark.parametrize("number", [getattr(signal, name) for name in NAMES], ids=NAMES)
def test_workers_ignore_a_signal_to_all_processes_of_a_job(workers, number):
    processes = [process for process, *_ in workers.map(process_and_item, range(3))]
    caught = []
    previous = signal.signal(number, lambda number, frame: caught.append(number))
    try:
        for process in processes:
            os.kill(process, number)
    finally:
        signal.signal(number, previous)
    assert caught == [number]
    assert [process for process, *_ in workers.map(process_and_item, range(3))] == processes


def test_a_signal_during_the_fork_does_not_terminate_the_worker(workers, monkeypatch):
    original = forks._Worker._main

    def live(self, serve):
        os.kill(os.getpid(), signal.SIGTERM)
        original(self, serve)

    monkeypatch.setattr(forks._Worker, "_main", live)
    assert len(workers.map(process_and_item, range(3))) == 3
    masks = workers.map(blocked_signals, range(3))
    assert masks == [signal.pthread_sigmask(signal.SIG_BLOCK, [])] * 3


def blocked_signals(model, item):
    return signal.pthread_sigmask(signal.SIG_BLOCK, [])


KILLED = """
import multiprocessing, os, sys, time
import numpy as np
import tinyattn as ta
from tinyattn.train.parallel import ForkExecutor
from tinyattn.train.step import BatchStep
ta.manual_seed(0)
model = ta.models.GPT(ta.models.GPTConfig.gpt2(vocabulary_size=5, block_size=4, layers=1, heads=1, dim=4))
step = BatchStep(ForkExecutor(model, 3))
ids = np.array([[0, 1, 2, 3]] * 3)
step(ids, ids, key=0)
print(*(child.pid for child in multiprocessing.active_children()), flush=True)
if sys.argv[1] == "end":
    sys.exit()
time.sleep(60)
"""


@pytest.mark.parametrize("way", ["end", "kill", "interrupt"])
def test_workers_terminate_with_the_first_process(way):
    first = subprocess.Popen(
        [sys.executable, "-c", KILLED, way],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    copies = [int(number) for number in first.stdout.readline().split()]
    assert len(copies) == 2
    deadline = time.monotonic() + 20
    while way != "end" and first.poll() is None and time.monotonic() < deadline:
        # Not once: a signal that comes just before it falls asleep does not wake it.
        os.killpg(first.pid, signal.SIGKILL if way == "kill" else signal.SIGINT)
        time.sleep(0.1)
    first.communicate(timeout=10)
    while any(map(is_alive, copies)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(is_alive, copies))


def is_alive(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
