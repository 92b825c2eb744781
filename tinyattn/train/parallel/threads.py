"""Threads of one process that share work, with BLAS held to its part of the cores meanwhile."""

import contextlib
import contextvars
import os
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait

from ...backend import blas


def available_cores():
    """The number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # no such call on this operating system
        return os.cpu_count() or 1


class Workers:
    """Threads that work side by side, the calling one among them, each with one thread of BLAS.

    A single worker has as many threads of BLAS as there are cores.

    Args:
        count: number of threads, the calling one included.

    Raises:
        ValueError: for fewer than one.

    >>> workers = Workers(2)
    >>> workers.run([lambda: 1, lambda: 2, lambda: 3])
    [1, 2, 3]
    >>> workers.close()
    """

    def __init__(self, count):
        if count < 1:
            raise ValueError(f"workers must be at least 1, got {count}")
        self.count = count
        self.blas_limited = _BlasThreads(1 if count > 1 else available_cores()).limited
        self._executor = None
        if count > 1:
            self._executor = ThreadPoolExecutor(count - 1, thread_name_prefix="tinyattn-worker")

    def run(self, jobs):
        """The results of functions without arguments, in order: the first is called here, the others by the threads.

        Raises:
            Exception: the first one of the jobs, in their order, once all have stopped.
        """
        here = 1 if self._executor is not None else len(jobs)
        with self.blas_limited():
            # Each in a copy of the caller's context: its grad mode, its device, its random stream.
            futures = [
                self._executor.submit(contextvars.copy_context().run, job) for job in jobs[here:]
            ]
            try:
                results = [contextvars.copy_context().run(job) for job in jobs[:here]]
            finally:
                wait(futures)
        return results + [future.result() for future in futures]

    def for_each(self, function, items):
        """Call ``function`` on each of ``items``, shared among the threads as they become free.

        The order is not fixed: this is for calls that write to different places.
        """
        remaining = deque(items)

        def work():
            while remaining:
                try:
                    item = remaining.popleft()
                except IndexError:  # another thread took the last one
                    return
                try:
                    function(item)
                except BaseException:
                    remaining.clear()
                    raise

        self.run([work] * min(self.count, len(remaining)))

    def close(self):
        """End the threads."""
        if self._executor is not None:
            self._executor.shutdown()


class _BlasThreads:
    """Holds BLAS to at most a number of threads for a while, and leaves it as it was.

    Several steps may be in flight in one process: the first to enter sets the number, the last to leave restores it.
    """

    _lock = threading.Lock()
    _holders = 0
    _controller = None
    _limit = None

    def __init__(self, most):
        self.most = most

    @contextlib.contextmanager
    def limited(self):
        cls = _BlasThreads
        with cls._lock:
            if cls._holders == 0:
                cls._limit = self._set()
            cls._holders += 1
        known = blas.one_thread() if self.most == 1 else contextlib.nullcontext()
        try:
            with known:
                yield
        finally:
            with cls._lock:
                cls._holders -= 1
                if cls._holders == 0 and cls._limit is not None:
                    cls._limit.restore_original_limits()

    def _set(self):
        cls = _BlasThreads
        if cls._controller is None:
            from threadpoolctl import ThreadpoolController

            cls._controller = ThreadpoolController().select(user_api="blas")
        if all(library.num_threads <= self.most for library in cls._controller.lib_controllers):
            return None
        return cls._controller.limit(limits=self.most)
