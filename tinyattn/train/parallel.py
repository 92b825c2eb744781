"""A training step on several threads: the batch is sharded, and the shards' gradients are added in a fixed order.

NumPy gives up the interpreter's lock while it computes, so that threads of one process do run side by side. Each
worker records and walks a graph of its own; what they share are the parameters, which they only read. BLAS is held to
one thread a worker meanwhile: what splits is the batch, once a step, and not every small product.

The sum of gradients has a fixed order, so that a run is reproduced to the last bit by the same number of workers. With
another number the same sums are rounded otherwise.
"""

import contextlib
import contextvars
import os
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

from ..autograd import Tensor
from ..autograd.walk import walk
from ..backend import Random, use_random
from .step import IGNORED_TARGET

# Of a shard: bounds the activations that are alive, and keeps them near the cache.
TOKENS_AT_ONCE = 2048


def available_cores():
    """The number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # no such call on this operating system
        return os.cpu_count() or 1


class Workers:
    """Threads that work side by side, the calling one among them, each with its share of BLAS's threads.

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
        self._blas = _BlasThreads(max(1, available_cores() // count))
        self._executor = None
        if count > 1:
            self._executor = ThreadPoolExecutor(count - 1, thread_name_prefix="tinyattn-worker")

    def run(self, jobs):
        """The results of functions without arguments, in order: the first is called here, the others by the threads.

        Raises:
            Exception: the first one of the jobs, in their order, once all have stopped.
        """
        here = 1 if self._executor is not None else len(jobs)
        with self._blas.limited():
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


class ParallelStep:
    """Computes a batch's loss and leaves the gradients in the parameters, as ``PlainStep`` does, on several threads.

    The loss is the mean over all targets that count, so each shard weighs as much as it has of them; the gradients
    equal those of the whole batch to rounding.

    Args:
        model: a module on the CPU with ``loss(ids, targets)``, the mean loss of a batch.
        workers: number of threads; by default one for each core that the process may use.
        communicator: where further processes train the same model on other batches, what joins them: an mpi4py
            communicator, or anything with its ``allreduce(number)`` and ``Allreduce(send, receive)``. Every process
            then gets the loss and the gradients of all batches together.

    Attributes:
        workers: the number of threads.
        parameters: those of the model when the step was made.
        for_each: the workers' own (see ``Workers``), to share other work among the same threads.

    Raises:
        ValueError: for fewer than one worker.

    >>> import numpy as np
    >>> import tinyattn as ta
    >>> model = ta.models.GPT(ta.models.GPTConfig(vocabulary_size=5, block_size=4, layers=1, heads=1, dim=4))
    >>> step = ParallelStep(model, workers=2)
    >>> ids = np.array([[0, 1, 2, 3], [1, 2, 3, 4]])
    >>> loss = step(ids, ids, key=0)
    >>> model.embedding.weight.grad.shape
    (5, 4)
    >>> step.close()
    """

    def __init__(self, model, workers=None, communicator=None):
        workers = available_cores() if workers is None else workers
        self.model = model
        self.parameters = (
            model.parameters()
        )  # found once: looking through the modules takes a while
        self.workers = workers
        self.communicator = communicator
        self._workers = Workers(workers)
        self.for_each = self._workers.for_each

    def __call__(self, inputs, targets, key):
        """The loss as a number.

        Args:
            inputs: ids, NumPy integers (batch, length).
            targets: ids of the same shape; -100 does not count.
            key: whole number that fixes every random draw of the pass (dropout), together with the shard's number.

        Raises:
            Exception: what a worker raised first, in the order of the shards, once all have stopped.
        """
        for parameter in self.parameters:
            parameter.grad = None
        count = self._count(targets)
        jobs = [
            _Shard(self.model, inputs[rows], targets[rows], count, (key, number)).run
            for number, rows in enumerate(shards(len(inputs), self.workers))
        ]
        results = self._workers.run(jobs)
        loss = sum(loss for loss, _ in results)
        gradients = _sum_in_order([gradients for _, gradients in results])
        if self.communicator is not None:
            loss = self._join(loss, gradients)
        for parameter in self.parameters:
            if parameter in gradients:
                parameter.grad = Tensor._wrap(gradients[parameter])
        return loss

    def _count(self, targets):
        """How many targets count, in all processes together; at least 1, so that it divides."""
        count = int(np.count_nonzero(targets != IGNORED_TARGET))
        if self.communicator is not None:
            count = self.communicator.allreduce(count)
        return max(count, 1)

    def _join(self, loss, gradients):
        """Add up the loss and the gradients of all processes; returns the loss."""
        parameters = [p for p in self.parameters if p.requires_grad]
        for parameter in parameters:  # all processes must send the same shapes
            if parameter not in gradients:
                gradients[parameter] = np.zeros(parameter.shape, parameter.dtype)
        sent = np.concatenate([gradients[p].reshape(-1) for p in parameters])
        received = np.empty_like(sent)
        self.communicator.Allreduce(sent, received)
        start = 0
        for parameter in parameters:
            end = start + parameter.size
            gradients[parameter][...] = received[start:end].reshape(parameter.shape)
            start = end
        return self.communicator.allreduce(loss)

    def close(self):
        """End the worker threads; the step cannot be used any more."""
        self._workers.close()


class _Shard:
    """A part of the batch, which one worker computes in pieces of bounded size."""

    def __init__(self, model, inputs, targets, count, seed):
        self.model = model
        self.inputs = inputs
        self.targets = targets
        self.count = count  # targets that count in the whole batch
        self.seed = seed

    def run(self):
        """This shard's share of the mean loss, and of the gradients, as ``{parameter: array}``."""
        total, gradients = 0.0, {}
        pieces = -(-self.inputs.size // TOKENS_AT_ONCE)
        with use_random(Random(self.seed)):
            for rows in shards(len(self.inputs), pieces):
                inputs, targets = self.inputs[rows], self.targets[rows]
                share = np.count_nonzero(targets != IGNORED_TARGET) / self.count
                loss = self.model.loss(inputs, targets)
                total += float(loss.item()) * share
                cotangent = np.asarray(share, loss.dtype)
                _add(gradients, walk([loss], [cotangent], False, False))
        return total, {leaf: gradient for leaf, (gradient, _) in gradients.items()}


def _add(gradients, more):
    """Add gradients ``{leaf: (array, owned)}`` to others, in place where the array is owned."""
    for leaf, (gradient, owned) in more.items():
        if leaf not in gradients:
            gradients[leaf] = (gradient if owned else gradient.copy(), True)
        else:
            held, _ = gradients[leaf]
            held += gradient


def _sum_in_order(parts):
    """The sum of the dicts ``{leaf: array}``, first to last; the arrays of the first are used up."""
    total = parts[0]
    for part in parts[1:]:
        for leaf, gradient in part.items():
            if leaf in total:
                total[leaf] += gradient
            else:
                total[leaf] = gradient
    return total


def shards(length, parts):
    """Slices that cut ``length`` rows into ``parts`` nearly equal ones, or into as many as there are rows.

    >>> shards(5, 2), shards(1, 4)
    ([slice(0, 3, None), slice(3, 5, None)], [slice(0, 1, None)])
    """
    parts = max(1, min(parts, length))
    ends = [-(-length * (number + 1) // parts) for number in range(parts)]
    return [slice(start, end) for start, end in zip([0, *ends], ends)]


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
        try:
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
