"""Forked worker processes, each with its own GIL.

Trade-offs: a worker is a copy of this process at the time of the fork. Before each call it receives the parameters'
values and requires_grad flags, the train/eval modes and the grad mode. It does not see other changes of the model, such
as a new hook or dropout rate, and has its own default random stream. Values and gradients are in shared memory; the
pipes carry only small messages. ``fork`` is safe on Linux only.
"""

import atexit
import contextlib
import multiprocessing
import signal
import sys
import threading
import warnings
import weakref
from multiprocessing import util  # noqa: F401  registers its exit function before ours, which then runs first

import numpy as np

from ...autograd.modes import current_mode
from ...backend import pool, shared
from . import messages
from .blas_limit import blas_limit
from .executor import Executor
from .index_queue import IndexQueue

_ALIGNMENT = 64  # bytes: each array begins a cache line
_EXIT_TIMEOUT = 5.0  # s, to wait for the exit code of a worker that closed its pipe

# Batch systems and service managers send these signals to all processes of a job. Workers ignore them, so that the
# calling process can save the run. Windows, where this module is imported but not used, has only the first two.
_SIGNAL_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU")
_IGNORED_SIGNALS = {getattr(signal, name, signal.SIGINT) for name in _SIGNAL_NAMES}

# Locked during a fork: a worker that another thread forks at the same time would inherit the child end of the new pipe
# and keep it open.
_forking = threading.Lock()
_open_pipes = weakref.WeakSet()


@atexit.register  # runs before the exit function of multiprocessing, which waits for the workers
def _close_pipes():
    for pipe in list(_open_pipes):
        pipe.close()


class WorkerError(RuntimeError):
    """A worker process could not be started, or has died."""


def unavailable():
    """The reason, for the user, why this process cannot fork workers; None if it can."""
    if sys.platform != "linux":
        return "fork is safe on Linux only"
    if multiprocessing.current_process().daemon:
        return "daemon processes must not have children"
    return None


class ForkExecutor(Executor):
    """Calls functions in forked processes and the calling thread.

    Workers are forked on first use.

    Args:
        model: a module on the CPU. Create the executor after changing the parameters' shapes and dtypes.
        workers: number of processes, the calling one included.

    Raises (``run``, ``for_each`` and ``map``):
        WorkerError: if a worker cannot be forked, or has died. The next call forks new ones.
        RuntimeError: if a parameter has another shape or dtype than before, or inside
            ``autograd.modes.watch_operations``.
    """

    def __init__(self, model, workers):
        super().__init__(model, workers)
        self._modules = list(model.modules())
        self._parameters = model.parameters()
        self._processes = []
        self._queue = IndexQueue()

    def run(self, function, items, receive, copy_arrays=True):  # copy_arrays: see ``messages.pack``
        busy = []
        try:
            with blas_limit(self.blas_threads):  # workers forked in the block inherit the limit
                if len(items) > 1:
                    busy = self._start(len(items) - 1)
                    state = self._share_parameters()
                for worker, item in zip(busy, items[1:]):
                    worker.send(messages.pack((state, function, item), copy_arrays))
                error = None
                try:
                    receive(function(self.model, items[0]))
                except Exception as own_error:
                    error = own_error
                for worker in busy:
                    (value, present), failure = worker.receive()
                    if error is None:
                        error = failure
                    if error is None:
                        receive(
                            (value, {self._parameters[i]: worker.gradients[i] for i in present})
                        )
        except BaseException:
            # After an interruption, for example, the next call must not receive replies to this one.
            self.close()
            raise
        if error is not None:
            raise error

    def for_each(self, function, items):
        items = list(items)
        for start in range(0, len(items), IndexQueue.capacity):
            part = items[start : start + IndexQueue.capacity]
            self._queue.fill(len(part))
            work = (function, part, self._queue)
            count = min(self.workers, len(part))
            self.run(_call_on_queue, [work] * count, lambda _: None, copy_arrays=False)

    def share(self, optimizer):
        optimizer.share_memory()
        self.close()  # workers forked later inherit this memory

    def _start(self, count):
        """The first ``count`` workers, forking those that do not exist yet."""
        if not self._processes:
            self._values = [
                array if shared.is_shared(array) else shared.zeros(array.shape, array.dtype)
                for array in (parameter._data for parameter in self._parameters)
            ]
        try:
            for number in range(len(self._processes) + 1, count + 1):
                self._processes.append(_Worker(number, _zeros_like(self._values), self._serve))
        except OSError as error:
            raise WorkerError(
                f"no worker process could be forked ({error.strerror}): use fewer workers"
            ) from error
        return self._processes[:count]

    def _share_parameters(self):
        """Copy the parameters' values to shared memory; returns the modes and flags to send to the workers."""
        for parameter, shared_value in zip(self._parameters, self._values, strict=True):
            data = parameter._data
            if data is shared_value:
                continue
            if data.shape != shared_value.shape or data.dtype != shared_value.dtype:
                raise RuntimeError(
                    f"a parameter of shape {shared_value.shape} ({shared_value.dtype}) now has shape {data.shape} "
                    f"({data.dtype}): create the executor after changing the model"
                )
            np.copyto(shared_value, data)
        mode = current_mode.get()
        if mode.watch is not None:
            raise RuntimeError("operations in worker processes cannot be watched: use one worker")
        return (
            mode._replace(outer=None),  # a worker has no enclosing block to return to
            [module.training for module in self._modules],
            [parameter.requires_grad for parameter in self._parameters],
        )

    def _apply(self, state):
        """In a worker: set the grad mode, the train/eval modes and the requires_grad flags."""
        mode, training_flags, requires_grad_flags = state
        current_mode.set(mode)
        for module, flag in zip(self._modules, training_flags, strict=True):
            if module.training is not flag:
                module.training = flag
        for parameter, flag in zip(self._parameters, requires_grad_flags, strict=True):
            if parameter.requires_grad is not flag:
                parameter.requires_grad = flag

    def _serve(self, worker):
        """In a worker: reply to messages until the pipe is closed."""
        for parameter, shared_value in zip(self._parameters, self._values, strict=True):
            parameter._data = shared_value
        with contextlib.suppress(EOFError, OSError):
            while True:
                worker.pipe.send_bytes(self._reply(worker, worker.pipe.recv_bytes()))

    def _reply(self, worker, packed):
        """The packed reply to a message, in the format of ``_Worker.receive``; gradients stay in shared memory."""
        try:
            state, function, item = messages.unpack(packed)
            self._apply(state)
            value, gradients = function(self.model, item)
            present = [i for i, p in enumerate(self._parameters) if p in gradients]
            for i in present:
                worker.gradients[i][...] = gradients[self._parameters[i]]
            return messages.pack(((value, present), None))
        except Exception as error:
            return messages.pack(((None, []), messages.picklable_error(error)))

    def close(self):
        for worker in self._processes:
            worker.close()
        self._processes = []


class _Worker:
    """A forked process, the pipe to it, and the shared memory for its gradients.

    Args:
        number: for messages; the calling thread is worker 0.
        gradients: one array for each parameter, in shared memory.
        serve: called in the process with this object; the process ends when it returns.
    """

    def __init__(self, number, gradients, serve):
        self.number = number
        self.gradients = gradients
        context = multiprocessing.get_context("fork")
        with _forking, warnings.catch_warnings():
            self.pipe, self._child_end = context.Pipe()
            _open_pipes.add(self.pipe)
            self._process = context.Process(
                target=self._main, args=(serve,), name=f"tinyattn-worker-{number}", daemon=True
            )
            # Python warns that other threads may hold locks during the fork. A worker only computes: the pool
            # replaces its lock (reset_after_fork), and BLAS stops its threads before a fork.
            warnings.simplefilter("ignore", DeprecationWarning)
            # The process starts with these signals blocked, until it ignores them.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, _IGNORED_SIGNALS)
            try:
                self._process.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            self._child_end.close()

    def _main(self, serve):
        for number in _IGNORED_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _IGNORED_SIGNALS)
        pool.reset_after_fork()
        _close_pipes()  # otherwise other workers would not notice that theirs are closed
        self.pipe = self._child_end
        serve(self)

    def send(self, packed):
        try:
            self.pipe.send_bytes(packed)
        except OSError:
            raise self._terminated() from None

    def receive(self):
        """The reply to the last message, ``((value, indices of parameters with a gradient), error)``."""
        try:
            result, error = messages.unpack(self.pipe.recv_bytes())
        except (EOFError, OSError):
            raise self._terminated() from None
        return result, error and messages.with_traceback(*error)

    def _terminated(self):
        self._process.join(_EXIT_TIMEOUT)
        code = self._process.exitcode
        how = (
            "" if code is None else f" by signal {-code}" if code < 0 else f" with exit code {code}"
        )
        return WorkerError(
            f"worker process {self.number} was terminated{how}: use fewer workers if memory was low"
        )

    def close(self):
        self.pipe.close()
        self._process.kill()  # a worker has no state to save
        self._process.join()


def _call_on_queue(model, work):
    """Call a function on the items whose indices this process takes from the queue."""
    function, items, queue = work
    for index in queue:
        function(items[index])
    return None, {}


def _zeros_like(arrays):
    """Zeros with the shapes and dtypes of ``arrays``, contiguous in shared memory."""
    ends = np.cumsum([0] + [-(-array.nbytes // _ALIGNMENT) * _ALIGNMENT for array in arrays])
    memory = shared.zeros(int(ends[-1]), np.uint8)
    return [
        np.ndarray(array.shape, array.dtype, memory[start : start + array.nbytes])
        for array, start in zip(arrays, ends)
    ]
