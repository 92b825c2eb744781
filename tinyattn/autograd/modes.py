"""Whether operations are recorded, run their kernels, and are watched for NaN: one context variable.

A context variable, and not a global: each thread and each asynchronous task has its own value, so that the shards of
a batch can run side by side.
"""

import contextvars
import functools
import inspect
from typing import NamedTuple


class Mode(NamedTuple):
    """What the engine asks once for each operation."""

    grad: bool = True
    kernels: bool = True
    anomaly: bool = False
    first_order: bool = False
    simulated: bool = False
    watch: "object | None" = None  # called with each operation that runs
    outer: "Mode | None" = None  # what holds again when the block is left


current_mode = contextvars.ContextVar("tinyattn_mode", default=Mode())


class _ModeChange:
    """A change of mode: a context manager, and a decorator for functions and generator functions.

    The mode changes when the block is entered or the decorated function runs, and comes back when it is left,
    also by an exception. A decorated generator has the changed mode inside and the caller's mode outside. The change
    itself keeps nothing, so that threads can share one, and a block can stand inside another of the same.
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


class _BareModeChange(_ModeChange):
    """A change that needs no arguments, so that it also decorates without parentheses."""

    def __new__(cls, function=None):
        change = super().__new__(cls)
        if function is None:
            return change
        change.__init__()
        return change(function)


class no_grad(_BareModeChange):
    """Record nothing inside: a context manager and a decorator.

    >>> import tinyattn as ta
    >>> x = ta.tensor([1.0], requires_grad=True)
    >>> with ta.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    def __init__(self, function=None):
        super().__init__(grad=False)


class enable_grad(_BareModeChange):
    """Record again inside a ``no_grad`` block: a context manager and a decorator.

    >>> import tinyattn as ta
    >>> with ta.no_grad(), ta.enable_grad():
    ...     ta.is_grad_enabled()
    True
    """

    def __init__(self, function=None):
        super().__init__(grad=True)


class set_grad_enabled(_ModeChange):
    """Record inside if ``enabled``: a context manager and a decorator.

    >>> import tinyattn as ta
    >>> with ta.set_grad_enabled(False):
    ...     ta.is_grad_enabled()
    False
    """

    def __init__(self, enabled):
        super().__init__(grad=bool(enabled))


class reference(_ModeChange):
    """Run every operation by its rule, and none by its kernel: what you debug is exactly what you read.

    >>> import tinyattn as ta
    >>> with ta.reference():
    ...     ta.softmax(ta.tensor([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """

    def __init__(self):
        super().__init__(kernels=False)


class simulated_kernels(_BareModeChange):
    """Run the kernels of a GPU on ``"strict"``, thread by thread, where there is no GPU: for tests, and slow.

    Needs g++. What a kernel does wrong is a ``KernelError``: see ``kernels/cuda/simulation.py``. Outside, ``"strict"``
    has the portable kernels.

    >>> import tinyattn as ta
    >>> x = ta.tensor([1.0, 2.0], device="strict")
    >>> with simulated_kernels():
    ...     y = ta.exp(x)
    """

    def __init__(self, function=None):
        super().__init__(simulated=True)


class first_order(_BareModeChange):
    """Keep only what first derivatives need: a context manager and a decorator, for training in less memory.

    Where a kernel has kept what its own backward reads, nothing is kept besides for the rule. The rule is what
    ``create_graph=True`` runs, which is therefore refused for what a kernel computed inside.

    >>> import tinyattn as ta
    >>> x = ta.tensor([[1.0, 2.0]], requires_grad=True)
    >>> with ta.first_order():
    ...     y = ta.softmax(x)
    >>> (gradient,) = ta.grad(y, x, ta.tensor([[1.0, 0.0]]))
    >>> gradient.shape
    (1, 2)
    """

    def __init__(self, function=None):
        super().__init__(first_order=True)


class detect_anomaly(_ModeChange):
    """Stop at the operation that first produces a NaN or an infinity, and name the line that called it.

    Forward, an operation is named if its result holds a NaN and its inputs none, or an infinity and its inputs are
    all finite (so that masking with -inf is no anomaly). Backward, the same holds of cotangents. Slow: for debugging.

    Raises:
        RuntimeError: from inside the block, at the operation.

    >>> import tinyattn as ta
    >>> with ta.detect_anomaly():
    ...     ta.log(ta.tensor([0.0]))
    Traceback (most recent call last):
    ...
    RuntimeError: log produced -inf or inf from finite inputs...
    """

    def __init__(self):
        super().__init__(anomaly=True)


class watch_operations(_ModeChange):
    """Call ``function(primitive, arrays, parameters)`` for each operation that runs inside, after it has run.

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
    """Whether operations are recorded at this point.

    >>> is_grad_enabled()
    True
    """
    return current_mode.get().grad
