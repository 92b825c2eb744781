"""Primitives: an operation, its vector-Jacobian products, and the kernels that may run in its place."""

import functools
import inspect
import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..backend import backend_of, is_array
from . import anomaly
from .inputs import convert_operands, is_double, on_default_device, plain_input
from .mistakes import explain, mixed_devices
from .modes import current_mode
from .node import Node, Outline
from .tensor import Tensor

PRIMITIVES = {}  # name -> Primitive
_KERNELS = {}  # (name, kind of backend) -> Kernel
_KINDS = {}  # type of array -> kind of backend
_recording_order = itertools.count(1)  # next() on it is atomic, so that threads can share it


class Kernel(NamedTuple):
    """What runs in place of a rule: see ``register_kernel``."""

    forward: Callable
    backward: Callable
    left_to_rule: tuple = ()  # names of inputs


class Primitive:
    """An operation with a hand-written backward. Made with the decorator ``primitive``.

    Calling it on tensors runs its kernel (or its rule, where there is none) and records a node if a gradient can be
    asked for. ``forward`` is the plain rule on arrays.
    """

    def __init__(self, forward, variadic=False, view=False, name=None):
        functools.update_wrapper(self, forward)
        self.name = name or forward.__name__
        self.forward = forward
        self.variadic = variadic
        self.view = view
        parameters = inspect.signature(forward).parameters.values()
        if variadic:
            self.input_names = ()
            self.parameter_names = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
        else:
            self.input_names = tuple(p.name for p in parameters if p.kind is p.POSITIONAL_ONLY)
            self._input_defaults = {
                p.name: p.default
                for p in parameters
                if p.kind is p.POSITIONAL_ONLY and p.default is not p.empty
            }
            self.parameter_names = tuple(
                p.name for p in parameters if p.kind is not p.POSITIONAL_ONLY
            )
            if not self.input_names:
                raise TypeError(
                    f"primitive {self.name} has no inputs: write them before a slash, "
                    f"as in def {self.name}(x, /, axis=-1)"
                )
        self.accumulate = None  # see accumulator
        self.vjps = {}  # position of the input -> function
        self._saved_positions = {}  # which inputs want a cotangent -> (inputs to save, whether to save out)
        PRIMITIVES[self.name] = self

    # ------------------------------------------------------------------------------------------------ definition

    def vjp(self, function_or_name):
        """Decorator: register a vector-Jacobian product.

        ``@softmax.vjp`` for a primitive with one input (or a variadic one); ``@matmul.vjp("a")`` for the input ``a``.
        The function takes ``(g, out, *inputs, **parameters)`` and returns the cotangent of that input. An argument
        whose name begins with an underscore is not kept for backward: of the input that the product belongs to (of all
        inputs, if variadic) its shape and dtype remain, anything else will be None.
        """
        if isinstance(function_or_name, str):
            if function_or_name not in self.input_names:
                raise TypeError(
                    f"primitive {self.name} has no input {function_or_name!r}: "
                    f"it has {', '.join(self.input_names)}"
                )
            position = self.input_names.index(function_or_name)
            return functools.partial(self._register_vjp, position)
        if not self.variadic and len(self.input_names) != 1:
            raise TypeError(
                f"primitive {self.name} has the inputs {', '.join(self.input_names)}: "
                f'say which, as in @{self.name}.vjp("{self.input_names[0]}")'
            )
        return self._register_vjp(0, function_or_name)

    def accumulator(self, function):
        """Decorator: add the cotangent of the one input into an array, in place: ``(array, g, **parameters)``.

        For a cotangent that is a fresh array, mostly zeros. Where other cotangents of the same input have arrived the
        walk calls this in place of the product, so that reading a sequence token by token costs, backward too, what is
        read and not a sequence of zeros for each token.
        """
        self.accumulate = function
        return function

    def _register_vjp(self, position, function):
        signature = inspect.signature(function)
        try:
            signature.bind_partial(None, None, *self.input_names)
        except TypeError:
            expected = ["g", "out", *self.input_names]
            expected += ["*", *self.parameter_names] if self.parameter_names else []
            raise TypeError(
                f"{function.__name__}{signature} cannot be the backward of {self.name}: "
                f"expected ({', '.join(expected)})"
            ) from None
        self.vjps[position] = function
        self._saved_positions.clear()
        return function

    def differentiable(self, position):
        """Whether the input at ``position`` has a vector-Jacobian product."""
        return (0 if self.variadic else position) in self.vjps

    def require_vjp(self, position):
        """Raise TypeError where the gradient of an input is asked for that nobody has written down."""
        if self.differentiable(position):
            return
        what, decorator = "", f"@{self.name}.vjp"
        if len(self.input_names) > 1:
            what = f" for its input {self.input_names[position]}"
            decorator += f'("{self.input_names[position]}")'
        raise TypeError(
            f"primitive {self.name} has no vjp{what}: write its backward with the decorator {decorator}, "
            "or pass x.detach() where no gradient is meant to flow"
        )

    def cotangent(self, position, g, out, inputs, parameters):
        """The cotangent of one input, by the rule: on arrays gives an array, on tensors a recorded tensor."""
        if self.variadic:
            return self.vjps[0](g, out, *inputs, position=position, **parameters)
        cotangent = self.vjps[position](g, out, *inputs, **parameters)
        if cotangent is None:
            raise TypeError(
                f"the backward of {self.name} returned None for the input {self.input_names[position]}: "
                f"expected its cotangent, an array"
            )
        return cotangent

    def _what_to_save(self, wanted):
        """Which inputs, and whether the output, the products for the ``wanted`` inputs read."""
        plan = self._saved_positions.get(wanted)
        if plan is None:
            if not self.vjps:
                plan = ((False,) * len(wanted), False)
            elif self.variadic:
                _, out, inputs, *_ = inspect.signature(self.vjps[0]).parameters
                save = not inputs.startswith("_")
                plan = ((save,) * len(wanted), not out.startswith("_"))
            else:
                save_out = False
                save = [False] * len(self.input_names)
                for position, is_wanted in enumerate(wanted):
                    if not is_wanted or position not in self.vjps:
                        continue
                    _, out, *names = list(inspect.signature(self.vjps[position]).parameters)
                    save_out |= not out.startswith("_")
                    for other, name in enumerate(names[: len(save)]):
                        save[other] |= not name.startswith("_")
                plan = (tuple(save), save_out)
            self._saved_positions[wanted] = plan
        return plan

    # ------------------------------------------------------------------------------------------------------- use

    def rule(self, *inputs, **parameters):
        """Use this primitive inside another rule: arrays in, array out; tensors in, recorded tensor out."""
        for value in inputs:
            if isinstance(value, Tensor):
                return self(*inputs, **parameters)
        return self.forward(*inputs, **parameters)

    def __call__(self, *inputs, **parameters):
        count = len(self.input_names)
        if len(inputs) != count and not self.variadic:
            inputs, parameters = self._bind(inputs, parameters)
        mode = current_mode.get()

        arrays = []
        wanted = []
        array_type = None
        foreign = False
        for value in inputs:
            if isinstance(value, Tensor):
                wanted.append(value._requires_grad)
                value = value._data
            else:
                wanted.append(False)
                kind = type(value)
                if kind is not float and kind is not int and value is not None:
                    foreign = True
                    value = plain_input(value)
            if array_type is not type(value) and hasattr(value, "dtype"):
                if array_type is not None:
                    raise mixed_devices(self, inputs)
                array_type = type(value)
            arrays.append(value)
        if array_type is None:
            arrays = on_default_device(arrays)
            array_type = next((type(array) for array in arrays if array is not None), np.ndarray)
        elif foreign:
            recorded = mode.grad and True in wanted
            arrays = convert_operands(arrays, inputs, copy=self.view or recorded)

        kernel = None
        if mode.kernels:
            kind = _kind_of(array_type, arrays)
            if mode.simulated and kind == "strict":
                kind = "cuda"
            kernel = _KERNELS.get((self.name, kind))
        result = NotImplemented
        # No warnings, as on a GPU, which knows none; detect_anomaly() finds the place.
        with np.errstate(all="ignore"):
            try:
                if kernel is not None:
                    result = kernel.forward(*arrays, **parameters)
                if result is NotImplemented:
                    kernel = None
                    result = self.forward(*arrays, **parameters), None
            except (TypeError, ValueError) as error:
                explain(self, error, inputs, parameters)
                raise
        out, residuals = result
        if type(out) is not array_type and not is_array(out):
            out = backend_of(next(a for a in arrays if hasattr(a, "dtype"))).asarray(out)
        if out.dtype.char != "f":
            out = self._in_dtype_of_inputs(out, arrays, parameters)
        line = None
        if mode.anomaly:
            line = anomaly.calling_line()
            anomaly.check_forward(self.name, out, arrays, parameters, line)
        if mode.watch is not None:
            mode.watch(self, arrays, parameters)

        tensor = Tensor._wrap(out)
        if self.view and isinstance(inputs[0], Tensor):
            tensor._version = inputs[0]._version
        if mode.grad and True in wanted and out.dtype.kind in "fc":
            node = self._record(tensor, inputs, arrays, parameters, wanted, kernel, residuals, line)
            if mode.first_order and kernel is not None:
                self._forget_inputs_of_rule(node, kernel)
        return tensor

    def _in_dtype_of_inputs(self, out, arrays, parameters):
        """``out``, but float32 where NumPy has made float64 of no float64, or float16 of bool, int8 or uint8."""
        if parameters.get("dtype") is not None:
            return out
        with np.errstate(all="ignore"):
            if out.dtype.char == "d" and not any(is_double(array) for array in arrays):
                return out.astype(np.float32)
            if out.dtype.char == "e" and len(arrays) == 1 and arrays[0].dtype.kind in "biu":
                return self.forward(arrays[0].astype(np.float32), **parameters)
        return out

    def _record(self, tensor, inputs, arrays, parameters, wanted, kernel, residuals, line):
        parents = []
        for position, value in enumerate(inputs):
            parents.append((value._node or value) if wanted[position] else None)
        save, save_out = self._what_to_save(tuple(wanted))
        node = Node()
        node.primitive = self
        node.parameters = parameters
        node.parents = parents
        saved = []
        versions = []
        for position, array in enumerate(arrays):
            if save[position]:
                saved.append(array)
                value = inputs[position]
                if isinstance(value, Tensor):
                    versions.append((value._version, value._version[0], position))
            else:
                saved.append(Outline(array) if self.variadic else None)
        node.inputs = saved
        node.out = tensor._data if save_out else None
        if save_out or residuals is not None:  # among which a kernel may keep what it returned
            versions.append((tensor._version, tensor._version[0], None))
        node.versions = versions
        node.backward = None if kernel is None else kernel.backward
        node.residuals = residuals
        node.shape = tensor._data.shape
        node.dtype = tensor._data.dtype
        node.order = next(_recording_order)
        node.hooks = None
        node.retained = None
        node.line = line
        tensor._node = node
        tensor._requires_grad = True
        return node

    def _forget_inputs_of_rule(self, node, kernel):
        """Keep for backward nothing but what the kernel kept; what writes to would go unseen stays watched."""
        for name in kernel.left_to_rule:
            if node.parents[self.input_names.index(name)] is not None:
                return
        node.inputs = node.out = None

    def _bind(self, inputs, parameters):
        """Inputs that were given by name or left to their default, and parameters that were given by position."""
        count = len(self.input_names)
        if len(inputs) < count:
            given = {**self._input_defaults, **parameters}
            missing = [name for name in self.input_names[len(inputs) :] if name not in given]
            if missing:
                raise TypeError(
                    f"{self.name}() needs {', '.join(missing)}: {self.name}{inspect.signature(self)}"
                )
            inputs += tuple(given[name] for name in self.input_names[len(inputs) :])
            parameters = {n: v for n, v in parameters.items() if n not in self.input_names}
        extra = inputs[count:]
        if len(extra) > len(self.parameter_names):
            raise TypeError(
                f"{self.name}() got {len(inputs)} positional arguments: "
                f"expected {self.name}{inspect.signature(self)}"
            )
        for name, value in zip(self.parameter_names, extra, strict=False):
            if name in parameters:
                raise TypeError(f"{self.name}() got {name} twice, by position and by name")
            parameters[name] = value
        return inputs[:count], parameters

    def __repr__(self):
        return f"<primitive {self.name}>"


def primitive(forward=None, *, variadic=False, view=False, name=None):
    """Decorator: make an operation of its forward rule.

    What stands before the slash in the signature are its inputs (tensors, arrays, Python scalars or None); what
    stands after it are parameters, by position or by name.

    Args:
        variadic: any number of inputs, as in ``def concatenate(*arrays, axis)``.
        view: the output may share memory with the first input.
        name: what it is registered under, where that is not the function's name.

    >>> import tinyattn as ta
    >>> @primitive
    ... def cube(x, /):
    ...     return x * x * x
    >>> @cube.vjp
    ... def cube_vjp(g, _out, x):
    ...     return g * 3 * x * x
    >>> x = ta.tensor(2.0, requires_grad=True)
    >>> cube(x).backward()
    >>> x.grad.item()
    12.0
    >>> del PRIMITIVES["cube"]
    """
    if forward is None:
        return functools.partial(primitive, variadic=variadic, view=view, name=name)
    return Primitive(forward, variadic=variadic, view=view, name=name)


def register_kernel(name, kind, forward, backward, left_to_rule=()):
    """Let a fast version run in place of the rule of primitive ``name`` on backends of ``kind``.

    Args:
        forward: gets what the rule gets; returns ``(out, residuals)``, or NotImplemented for what it cannot do.
        backward: ``(g, residuals)`` to the cotangent: a tuple aligned with the inputs where there are several, with
            None for an input that is left to the rule. It returns fresh arrays, or ``g`` itself, and changes neither
            ``g`` nor the residuals.
        left_to_rule: names of the differentiable inputs for which backward returns None.
    """
    _KERNELS[name, kind] = Kernel(forward, backward, left_to_rule)


def registered_kernels():
    """All kernels: ``(name, kind) -> (forward, backward)``."""
    return {key: (kernel.forward, kernel.backward) for key, kernel in _KERNELS.items()}


def _kind_of(array_type, arrays):
    """The kind of backend that arrays of a type belong to, asked of it once."""
    kind = _KINDS.get(array_type)
    if kind is None:
        array = next(array for array in arrays if type(array) is array_type)
        kind = _KINDS[array_type] = backend_of(array).kind
    return kind
