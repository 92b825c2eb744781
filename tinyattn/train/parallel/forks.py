"""Worker processes: copies of this one that compute beside it, each with an interpreter's lock of its own.

The step of a small model is some eight hundred short NumPy calls. Each gives the interpreter's lock up and takes it
back, and a thread that waits for the lock is woken late: two threads of one process need a quarter more time than two
processes do.

What it trades: a copy is this process as it stood when the copy was made. The parameters' values, which of them want
gradients, and the modules' modes are told to it before each piece of work; of any other change to the model, such as a
hook or another dropout rate, it learns nothing, and its default random stream is its own. Values and gradients lie in
memory that all processes see, so that little goes through the pipes. Copies are made by ``fork``, which is safe on
Linux; elsewhere threads do the work.
"""

import multiprocessing
import os
import signal
import sys
import threading
import warnings
import weakref

import numpy as np

from ...autograd.modes import Mode, current_mode
from ...backend import pool, shared
from . import messages
from .index_queue import Turns

_ALIGNMENT = 64  # bytes: each array begins a cache line
_SECONDS_TO_END = 5.0

# Held while a copy is made, so that no other copy gets the far end of its pipe and keeps it open.
_forking = threading.Lock()
_open_pipes = weakref.WeakSet()


class WorkerError(RuntimeError):
    """A worker process could not be made, or has ended."""


class Forks:
    """Copies of this process that call functions on its model.

    Args:
        model: a module on the CPU.
        parameters: those of its parameters whose values and gradients are exchanged.
        count: the most processes there will be, this one included. The others are made when they are first needed.
    """

    def __init__(self, model, parameters, count):
        self._model = model
        self._modules = list(model.modules())
        self._parameters = parameters
        self._count = count
        self._copies = []
        self._turns = None

    @staticmethod
    def possible():
        """Whether copies of this process can be made, and would see what the caller's modes ask for."""
        return (
            sys.platform == "linux"
            and not multiprocessing.current_process().daemon  # may have no processes of its own
            and current_mode.get() == Mode()
        )

    def run(self, function, items, meanwhile=None):
        """``function(model, item)`` of each item, the first here and each of the others in a copy, in order.

        Args:
            function: one that a module defines; returns ``(value, gradients)``: what can be pickled, and a dict
                ``{parameter: array}``. The copies' gradients are views of memory that the next call writes to.
            items: as many as there are processes, or fewer; what can be pickled. Arrays in shared memory are not
                copied.
            meanwhile: called with the first result, while the copies may still be at work.

        Raises:
            Exception: the first one of the calls, in their order, once all have ended.
            WorkerError: if a copy cannot be made, or has ended. The next call makes new ones.
            RuntimeError: if the model has got parameters of another kind.
        """
        try:
            self._begin(len(items))
            self._publish()
            busy = self._copies[: len(items) - 1]
            settings = self._settings()
            for copy, item in zip(busy, items[1:], strict=True):
                copy.send((settings, function, item))
            outcomes = [_outcome(function, self._model, items[0])]
            if meanwhile is not None and outcomes[0][1] is None:
                meanwhile(outcomes[0][0])
            outcomes += [copy.receive() for copy in busy]
        except BaseException:
            # An interruption, say: the next call shall not get this one's answers.
            self.close()
            raise
        errors = [error for _, error in outcomes if error is not None]
        if any(isinstance(error, WorkerError) for error in errors):
            self.close()
        if errors:
            raise errors[0]
        return [outcomes[0][0]] + [
            (value, {self._parameters[i]: copy.gradients[i] for i in present})
            for copy, ((value, present), _) in zip(busy, outcomes[1:], strict=True)
        ]

    def share(self, function, items):
        """Call ``function`` on each of at most ``Turns.most`` items, by whichever process is free.

        Args:
            function: one that a module defines, or a partial of one, for what it writes into shared memory.
            items: what can be pickled; it goes to all processes.

        Raises:
            As ``run``.
        """
        count = min(self._count, len(items))
        self._begin(count)
        self._turns.deal(len(items))
        self.run(_take_turns, [(function, items, self._turns)] * count)

    def _publish(self):
        """Let the copies see the parameters' present values."""
        for parameter, seen in zip(self._parameters, self._values, strict=True):
            data = parameter._data
            if data is seen:
                continue
            if data.shape != seen.shape or data.dtype != seen.dtype:
                raise RuntimeError(
                    f"a parameter of shape {seen.shape} ({seen.dtype}) now has shape {data.shape} "
                    f"({data.dtype}): make the step after changing the model"
                )
            np.copyto(seen, data)

    def _settings(self):
        """What beside values may change between two calls."""
        modes = [module.training for module in self._modules]
        return modes, [parameter.requires_grad for parameter in self._parameters]

    def _apply(self, settings):
        modes, wanted = settings
        for module, mode in zip(self._modules, modes, strict=True):
            if module.training is not mode:
                module.training = mode
        for parameter, requires_grad in zip(self._parameters, wanted, strict=True):
            if parameter.requires_grad is not requires_grad:
                parameter.requires_grad = requires_grad

    def _begin(self, count):
        """Make copies, as far as there are fewer than ``count`` processes."""
        try:
            if self._turns is None:
                self._turns = Turns()
                self._values = [
                    array if shared.is_shared(array) else shared.zeros(array.shape, array.dtype)
                    for array in (parameter._data for parameter in self._parameters)
                ]
            for number in range(len(self._copies) + 1, count):
                self._copies.append(_Copy(number, _zeros_like(self._values), self._serve))
        except OSError as error:
            self.close()
            raise WorkerError(
                f"no worker process could be made ({error.strerror}): ask for fewer workers"
            ) from error
        except BaseException:
            self.close()
            raise

    def _serve(self, copy):
        """What a copy does until the pipe to it is closed."""
        for parameter, seen in zip(self._parameters, self._values, strict=True):
            parameter._data = seen
        while True:
            try:
                packed = copy.pipe.recv_bytes()
            except (EOFError, OSError):
                return
            answer = self._answer(copy, packed)
            try:
                copy.pipe.send_bytes(answer)
            except OSError:
                return

    def _answer(self, copy, packed):
        """``(result, error)``, packed, as ``_Copy.receive`` passes it on; gradients are left in shared memory."""
        try:
            settings, function, item = messages.unpack(packed)
            self._apply(settings)
            value, gradients = function(self._model, item)
            present = [i for i, p in enumerate(self._parameters) if p in gradients]
            for i in present:
                copy.gradients[i][...] = gradients[self._parameters[i]]
            return messages.pack(((value, present), None))
        except Exception as error:
            return messages.pack((None, messages.portable(error)))

    def close(self):
        """End the copies."""
        for copy in self._copies:
            copy.close()
        self._copies = []
        if self._turns is not None:
            self._turns.close()
            self._turns = None


class _Copy:
    """A forked process, the pipe to it, and the memory that it leaves gradients in."""

    def __init__(self, number, gradients, serve):
        self.number = number
        self.gradients = gradients
        context = multiprocessing.get_context("fork")
        with _forking, warnings.catch_warnings():
            self.pipe, self._far_end = context.Pipe()
            _open_pipes.add(self.pipe)
            self._process = context.Process(
                target=self._live, args=(serve,), name=f"tinyattn-worker-{number}", daemon=True
            )
            # Python warns of other threads, whose locks a copy may find held. A copy computes, and what it locks
            # for that is made anew (pool.forget); BLAS ends its own threads before a fork.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
            self._far_end.close()

    def _live(self, serve):
        os.setpgid(0, 0)  # a signal to the group is for the first process, which ends the others
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        pool.forget()
        for pipe in list(_open_pipes):  # or other copies would not see that theirs are closed
            pipe.close()
        self.pipe = self._far_end
        serve(self)

    def send(self, message):
        try:
            self.pipe.send_bytes(messages.pack(message))
        except OSError:
            raise self._ended() from None

    def receive(self):
        """The answer to what was sent, as (result, error)."""
        try:
            result, error = messages.unpack(self.pipe.recv_bytes())
        except (EOFError, OSError):
            return None, self._ended()
        return result, error and messages.with_traceback(*error)

    def _ended(self):
        self._process.join(_SECONDS_TO_END)
        code = self._process.exitcode
        how = (
            "" if code is None else f" by signal {-code}" if code < 0 else f" with exit code {code}"
        )
        return WorkerError(
            f"worker process {self.number} was ended{how}: ask for fewer workers if memory was short"
        )

    def close(self):
        self.pipe.close()
        self._process.terminate()  # nothing is lost: it has no state of its own
        self._process.join(_SECONDS_TO_END)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _outcome(function, model, item):
    """``(result, None)``, or ``(None, error)``."""
    try:
        return function(model, item), None
    except Exception as error:
        return None, error


def _take_turns(model, work):
    """Call a function on those items whose turn this process takes."""
    function, items, turns = work
    for number in turns:
        function(items[number])
    return None, {}


def _zeros_like(arrays):
    """Zeros of the shapes and dtypes of ``arrays``, side by side in shared memory."""
    ends = np.cumsum([0] + [-(-array.nbytes // _ALIGNMENT) * _ALIGNMENT for array in arrays])
    memory = shared.zeros(int(ends[-1]), np.uint8)
    return [
        np.ndarray(array.shape, array.dtype, memory[start : start + array.nbytes])
        for array, start in zip(arrays, ends)
    ]
