"""JAX functions, ``custom_vjp`` among them, as problems.

By default JAX computes in float32: its 64-bit types are enabled during the check of float64 arrays. Functions are
called without an additional ``jax.jit``, so that state kept between calls is detected.
"""

import contextlib
import sys

import numpy as np

from ..problem import Argument, Problem
from ..reproduce import function_name

MAX_CALLS = 100


def jax_problem(fn, inputs, params=(), dtype=None):
    """The problem of a JAX function; None for any other function.

    It is one if ``fn`` is a ``custom_vjp``, a ``custom_jvp`` or the result of ``jax.jit``, or if an input is a JAX
    array. ``inputs`` is a pytree; its floating-point arrays are checked.

    Raises:
        TypeError: if ``params`` is given: a JAX function takes its parameters as arguments.
    """
    jax = sys.modules.get("jax")
    if not hasattr(jax, "custom_vjp"):
        return None
    paths, tree = jax.tree_util.tree_flatten_with_path(inputs)
    leaves = [(f"inputs{jax.tree_util.keystr(path)}", leaf) for path, leaf in paths]
    if not (_is_jax_function(fn) or any(isinstance(leaf, jax.Array) for _, leaf in leaves)):
        return None
    if not (isinstance(params, (tuple, list)) and not params):
        raise TypeError("params is given with a JAX function: expected its parameters in inputs")
    slots = [
        Argument(name, np.asarray(leaf), dtype) if _is_floating(leaf) else leaf
        for name, leaf in leaves
    ]
    return JaxProblem(fn, tree, slots)


class JaxProblem(Problem):
    """The function: values are its outputs, gradients those of ``jax.vjp``."""

    def __init__(self, fn, tree, slots):
        super().__init__([slot for slot in slots if isinstance(slot, Argument)])
        self.name = function_name(fn)
        self._fn = fn
        self._tree = tree
        # For each leaf of the inputs: its Argument, or the value that is passed on unchanged.
        self._slots = slots

    def run(self, arrays):
        """The floating-point outputs for ``arrays``, one for each argument."""
        jax = sys.modules["jax"]
        self.evaluations += 1
        given = iter(arrays)
        leaves = [next(given) if isinstance(slot, Argument) else slot for slot in self._slots]
        inputs = jax.tree_util.tree_unflatten(self._tree, leaves)
        result = self._fn(*inputs) if isinstance(inputs, (tuple, list)) else self._fn(inputs)
        outputs = [leaf for leaf in jax.tree_util.tree_leaves(result) if _is_floating(leaf)]
        if not outputs:
            raise TypeError(
                f"{self.name} returned {type(result).__name__}: expected a floating-point array, "
                "or a pytree with one"
            )
        return outputs

    def values(self):
        return [np.asarray(output) for output in self.run(self._arrays())]

    def gradients(self, cotangents, strided=False):
        jax = sys.modules["jax"]
        outputs, backward = jax.vjp(lambda *arrays: self.run(arrays), *self._arrays())
        given = [
            jax.numpy.array(cotangent, output.dtype)
            for cotangent, output in zip(cotangents, outputs, strict=True)
        ]
        return [np.asarray(gradient) for gradient in backward(given)]

    def with_dtype(self, dtype):
        slots = [
            Argument(slot.name, slot.start, dtype) if isinstance(slot, Argument) else slot
            for slot in self._slots
        ]
        twin = JaxProblem(self._fn, self._tree, slots)
        twin.call = self.call
        return twin

    def operations(self):
        """The names of the functions with a gradient of their own that the function calls."""
        return tuple(dict.fromkeys(function_name(function) for function, _ in self._calls()))

    def culprit(self, cotangents):
        """The name of the first ``custom_vjp`` whose own gradient is wrong."""
        from ..check import gradient_report  # which calls this method

        for function, arguments in self._calls():
            if not gradient_report(function, arguments, mode="directional", directions=3).passed:
                return function_name(function)
        return None

    def running(self):
        jax = sys.modules["jax"]
        if not any(argument.start.dtype == np.float64 for argument in self.arguments):
            return contextlib.nullcontext()
        # The second is that of JAX before 0.8.
        enable = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
        return enable(True)

    def _arrays(self):
        # Copies: on a CPU a JAX array may share the memory of a NumPy array.
        jax = sys.modules["jax"]
        return [jax.numpy.array(argument.array, copy=True) for argument in self.arguments]

    def _calls(self):
        """``(function, arguments)`` for each call of a ``custom_vjp``, with concrete arguments."""
        jax = sys.modules["jax"]
        calls, call = [], jax.custom_vjp.__call__

        def record(function, *arguments, **options):
            if len(calls) < MAX_CALLS and not options:
                calls.append((function, arguments))
            return call(function, *arguments, **options)

        try:
            jax.custom_vjp.__call__ = record
            with jax.disable_jit():
                self.run(self._arrays())
        finally:
            jax.custom_vjp.__call__ = call
        return calls


def _is_jax_function(fn):
    jax = sys.modules["jax"]
    kinds = (jax.custom_vjp, jax.custom_jvp)
    return isinstance(fn, kinds) or type(fn).__module__.startswith("jaxlib")


def _is_floating(leaf):
    jax = sys.modules["jax"]
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and jax.numpy.issubdtype(dtype, np.inexact)
