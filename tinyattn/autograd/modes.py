"""Modes of execution in one context variable: recording (grad mode), kernels, anomaly detection.

In a context variable, unlike a global one, each thread and each asynchronous task has its own value, so that the shards
of a batch can run in parallel.
"""

import contextvars
import functools
import inspect
from typing import NamedTuple


class Mode(NamedTuple):
    """The settings that the engine reads for each operation."""

    grad: bool = True
    kernels: bool = True
    anomaly: bool = False
    first_order: bool = False
    simulated: bool = False
    watch: "object | None" = None  # a callback for each operation
    outer: "Mode | None" = None  # the mode to restore at the end of the block


current_mode = contextvars.ContextVar("tinyattn_mode", default=Mode())


class _ModeChange:
    """A change of mode: a context manager, and a decorator for functions and generator functions.

    The mode changes when the block is entered or the decorated function runs, and is restored at the end, also after
    an exception. A decorated generator runs in the changed mode, and its caller in its own. The object has no state, so
    that threads can share it and blocks can be nested.
    """

    def __init__(self, **changes):
        self._changes = changes

    def __enter__(self):
        outer = current_mode.get()
        current_mode.set(outer._replace(**self._changes, outer=outer))
        return self

    def __exit__(self, *exception):
        current_mode.set(current_mode.get().outer)

    def __call__(self, function):
        changes = self._changes
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generate(*args, **kwargs):
                return _generate_in_mode(function(*args, **kwargs), changes)

            return generate

        @functools.wraps(function)
        def call(*args, **kwargs):
            with _ModeChange(**changes):
                return function(*args, **kwargs)

        return call


def _generate_in_mode(generator, changes):
    def resume(step, *args):
        with _ModeChange(**changes):
            return step(*args)

    try:
        item = resume(next, generator)
        while True:
            try:
                sent = yield item
            except GeneratorExit:
                resume(generator.close)
                raise
            except BaseException as error:
                item = resume(generator.throw, error)
            else:
                item = resume(generator.send, sent)
    except StopIteration as stop:
        return stop.value


class _FixedModeChange(_ModeChange):
    """A change without arguments, given by the class; it also decorates without parentheses."""

    _changes = {}

    def __new__(cls, function=None):
        change = super().__new__(cls)
        return change if function is None else change(function)

    def __init__(self, function=None):
        """The changes are those of the class."""


class no_grad(_FixedModeChange):
    """Disable recording: a context manager and a decorator.

    >>> import tinyattn as ta
    >>> x = ta.tensor([1.0], requires_grad=True)
    >>> with ta.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    _changes = {"grad": False}


class enable_grad(_FixedModeChange):
    """Enable recording inside a ``no_grad`` block: a context manager and a decorator.

    >>> import tinyattn as ta
    >>> with ta.no_grad(), ta.enable_grad():
    ...     ta.is_grad_enabled()
    True
    """

    _changes = {"grad": True}


class set_grad_enabled(_ModeChange):
    """Enable or disable recording: a context manager and a decorator.

    >>> import tinyattn as ta
    >>> with ta.set_grad_enabled(False):
    ...     ta.is_grad_enabled()
    False
    """

    def __init__(self, enabled):
        super().__init__(grad=bool(enabled))


class reference(_FixedModeChange):
    """Run the rule of every operation instead of its kernel, for debugging.

    >>> import tinyattn as ta
    >>> with ta.reference():
    ...     ta.softmax(ta.tensor([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """

    _changes = {"kernels": False}


class simulated_kernels(_FixedModeChange):
    """Simulate the CUDA kernels on ``"strict"``, thread by thread, for tests without a GPU (slow).

    Requires g++. A fault of a kernel raises a ``KernelError``: see ``kernels/cuda/simulation.py``. By default
    ``"strict"`` runs the portable kernels.

    >>> import tinyattn as ta
    >>> x = ta.tensor([1.0, 2.0], device="strict")
    >>> with simulated_kernels():
    ...     y = ta.exp(x)
    """

    _changes = {"simulated": True}


class first_order(_FixedModeChange):
    """Save only what first derivatives need, to use less memory in training: a context manager and a decorator.

    If a kernel has saved its residuals, the inputs of the rule are not saved. ``create_graph=True`` runs the rule, and
    therefore raises for operations that a kernel computed inside.

    >>> import tinyattn as ta
    >>> x = ta.tensor([[1.0, 2.0]], requires_grad=True)
    >>> with ta.first_order():
    ...     y = ta.softmax(x)
    >>> (gradient,) = ta.grad(y, x, ta.tensor([[1.0, 0.0]]))
    >>> gradient.shape
    (1, 2)
    """

    _changes = {"first_order": True}


class detect_anomaly(_FixedModeChange):
    """Raise at the operation that first produces a NaN or an infinity, with the line of code that called it.

    An operation is anomalous if its result has a NaN and its inputs have none, or if its result has an infinity and its
    inputs are finite (masking with -inf is therefore no anomaly); in backward likewise for cotangents. For debugging:
    it is slow.

    Raises:
        RuntimeError: from inside the block, at the operation.

    >>> import tinyattn as ta
    >>> with ta.detect_anomaly():
    ...     ta.log(ta.tensor([0.0]))
    Traceback (most recent call last):
    ...
    RuntimeError: log produced -inf or inf from finite inputs...
    """

    _changes = {"anomaly": True}


class watch_operations(_ModeChange):
    """Call ``function(primitive, arrays, parameters)`` after each operation inside the block.

    >>> import tinyattn as ta
    >>> names = []
    >>> with watch_operations(lambda primitive, arrays, parameters: names.append(primitive.name)):
    ...     _ = ta.exp(ta.tensor([0.0])) * 2
    >>> names
    ['exp', 'mul']
    """

    def __init__(self, function):
        super().__init__(watch=function)


def is_grad_enabled():
    """Whether recording is enabled.

    >>> is_grad_enabled()
    True
    """
    return current_mode.get().grad
