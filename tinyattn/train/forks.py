"""Worker processes: copies of this one that compute beside it, each with an interpreter's lock of its own.

The step of a small model is some eight hundred short NumPy calls. Each gives the interpreter's lock up and takes it
back, and a thread that waits for the lock is woken late: two threads of one process need a quarter more time than two
processes do.

What it trades: a copy is this process as it stood when the copy was made. The parameters' values, which of them want
gradients, and the modules' modes are told to it before each piece of work; of any other change to the model it learns
nothing. Values and gradients lie in memory that all processes see, so that little goes through the pipes. Copies are
made by ``fork``, which is safe on Linux; elsewhere threads do the work.
"""

import io
import multiprocessing
import os
import pickle
import signal
import sys
import traceback
import warnings

import numpy as np

from ..autograd.modes import Mode, current_mode
from ..backend import pool, shared
from .turns import Turns

_ALIGNMENT = 64  # bytes: each array begins a cache line


class WorkerError(RuntimeError):
    """A worker process could not be made, or has ended."""


class Forks:
    """Copies of this process that call functions on its model.

    Args:
        model: a module on the CPU.
        parameters: those of its parameters whose values and gradients are exchanged.
        count: number of processes, this one included. The others are made when they are first needed.
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
            WorkerError: if a copy cannot be made, or has ended.
            RuntimeError: if the model has got parameters of another kind.
        """
        if not self._copies:
            self._begin()
        try:
            self._publish()
            busy = self._copies[: len(items) - 1]
            settings = self._settings()
            for copy, item in zip(busy, items[1:]):
                copy.send((settings, function, item))
            outcomes = [_outcome(function, self._model, items[0])]
            if meanwhile is not None and outcomes[0][1] is None:
                meanwhile(outcomes[0][0])
            outcomes += [copy.receive() for copy in busy]
        except (
            BaseException
        ):  # an interruption, say: the next call shall not get this one's answers
            self.close()
            raise
        errors = [error for _, error in outcomes if error is not None]
        if any(isinstance(error, WorkerError) for error in errors):
            self.close()
        if errors:
            raise errors[0]
        return [outcomes[0][0]] + [
            (value, {self._parameters[i]: copy.gradients[i] for i in present})
            for copy, ((value, present), _) in zip(busy, outcomes[1:])
        ]

    def share(self, function, items):
        """Call ``function`` on each of at most ``Turns.most`` items, by whichever process is free.

        Args:
            function: one that a module defines, or a partial of one, for what it writes into shared memory.
            items: what can be pickled; it goes to all processes.

        Raises:
            As ``run``.
        """
        if not self._copies:
            self._begin()
        self._turns.deal(len(items))
        self.run(_take_turns, [(function, items, self._turns)] * min(self._count, len(items)))

    def _publish(self):
        """Let the copies see the parameters' present values."""
        for parameter, seen in zip(self._parameters, self._values):
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
        for module, mode in zip(self._modules, modes):
            if module.training is not mode:
                module.training = mode
        for parameter, requires_grad in zip(self._parameters, wanted):
            if parameter.requires_grad is not requires_grad:
                parameter.requires_grad = requires_grad

    def _begin(self):
        arrays = [parameter._data for parameter in self._parameters]
        self._values = [
            array if shared.is_shared(array) else shared.zeros(array.shape, array.dtype)
            for array in arrays
        ]
        self._turns = Turns()
        try:
            for number in range(1, self._count):
                self._copies.append(_Copy(number, _zeros_like(arrays), self._serve))
        except OSError as error:
            self.close()
            raise WorkerError(
                f"no worker process could be made ({error.strerror}): ask for fewer workers"
            ) from error

    def _serve(self, copy):
        """What a copy does until the pipe to it is closed."""
        for earlier in self._copies:  # or they would never see their pipes closed
            earlier.pipe.close()
        pool.forget()
        for parameter, seen in zip(self._parameters, self._values):
            parameter._data = seen
        while True:
            try:
                settings, function, item = copy.pipe.recv()
                self._apply(settings)
                copy.pipe.send(self._answer(copy, function, item))
            except (EOFError, OSError):
                return

    def _answer(self, copy, function, item):
        """``(result, error)``, as ``_Copy.receive`` passes it on; gradients are left in shared memory."""
        result, error = _outcome(function, self._model, item)
        if error is not None:
            return None, _portable(error)
        value, gradients = result
        present = [i for i, p in enumerate(self._parameters) if p in gradients]
        for i in present:
            copy.gradients[i][...] = gradients[self._parameters[i]]
        return (value, present), None

    def close(self):
        """End the copies; another call makes new ones."""
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
        self.pipe, self._far_end = context.Pipe()
        self._process = context.Process(
            target=self._live, args=(serve,), name=f"tinyattn-worker-{number}", daemon=True
        )
        with warnings.catch_warnings():
            # Python warns of other threads, whose locks a copy may find held. A copy only computes: of what
            # it uses, the pool's lock is held by nobody here, and BLAS ends its threads before a fork.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        self._far_end.close()

    def _live(self, serve):
        os.setpgid(0, 0)  # a signal to the group is for the first process, which ends the others
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.pipe.close()
        self.pipe = self._far_end
        serve(self)

    def send(self, message):
        packed = io.BytesIO()
        _Pickler(packed, pickle.HIGHEST_PROTOCOL).dump(message)
        try:
            self.pipe.send_bytes(packed.getbuffer())
        except OSError:
            raise self._ended() from None

    def receive(self):
        """The answer to what was sent, as (result, error)."""
        try:
            result, error = self.pipe.recv()
        except (EOFError, OSError):
            return None, self._ended()
        return result, error and _with_traceback(*error)

    def _ended(self):
        self._process.join()
        code = self._process.exitcode
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        return WorkerError(
            f"worker process {self.number} was ended {how}: ask for fewer workers if memory was short"
        )

    def close(self):
        self.pipe.close()
        self._process.terminate()  # nothing is lost: it has no state of its own
        self._process.join()


class _Pickler(pickle.Pickler):
    """Packs an array of shared memory as where it lies, so that the receiver reads and writes the same one."""

    def reducer_override(self, value):
        address = shared.address(value) if type(value) is np.ndarray else None
        return NotImplemented if address is None else (shared.array_at, address)


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


class _InWorker(Exception):
    """Where in another process an error arose: its traceback as text."""


def _portable(error):
    """An error as what a pipe can carry: itself or a RuntimeError that names it, and its traceback as text."""
    text = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return error, text


def _with_traceback(error, text):
    error.__cause__ = _InWorker(f"\n{text}")
    return error


def _zeros_like(arrays):
    """Zeros of the shapes and dtypes of ``arrays``, side by side in shared memory."""
    ends = np.cumsum([0] + [-(-array.nbytes // _ALIGNMENT) * _ALIGNMENT for array in arrays])
    memory = shared.zeros(int(ends[-1]), np.uint8)
    return [
        np.ndarray(array.shape, array.dtype, memory[start : start + array.nbytes])
        for array, start in zip(arrays, ends)
    ]
