"""A pool of worker threads: NumPy releases the GIL while it computes.

Trade-offs: threads see all changes of the model and need no shared memory. But a step of a small model is about eight
hundred short NumPy calls, each of which releases and reacquires the GIL, and a thread that waits for the GIL wakes up
late: two threads take a quarter more time than two processes (``forks.py``).
"""

import contextvars
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait

from .blas_limit import blas_limit
from .executor import Executor


class ThreadExecutor(Executor):
    """Calls functions in a thread pool and in the calling thread.

    Args:
        model: a module.
        workers: number of threads, the calling one included.
        fallback: see ``Executor``.

    >>> import tinyattn as ta
    >>> executor = ThreadExecutor(ta.nn.Linear(2, 3), workers=2)
    >>> executor.map(lambda model, item: item + 1, [1, 2, 3])
    [2, 3, 4]
    >>> executor.close()
    """

    def __init__(self, model, workers, fallback=None):
        super().__init__(model, workers)
        self.fallback = fallback
        self._pool = None

    def run(self, function, items, receive):
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="tinyattn-worker")
        with blas_limit(self.blas_threads):
            # Each call has a copy of the caller's context: grad mode, default device, random stream.
            futures = [
                self._pool.submit(contextvars.copy_context().run, function, self.model, item)
                for item in items[1:]
            ]
            try:
                receive(contextvars.copy_context().run(function, self.model, items[0]))
                for future in futures:
                    receive(future.result())
            finally:
                wait(futures)

    def for_each(self, function, items):
        remaining = deque(items)

        def work(model, _):
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

        self.run(work, [None] * max(1, min(self.workers, len(remaining))), lambda _: None)

    def close(self):
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
