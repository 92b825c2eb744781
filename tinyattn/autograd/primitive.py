"""Primitives: operations with their vector-Jacobian products, and the registry of kernels."""

import functools
import inspect
import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..backend import backend_of, is_array
from . import anomaly
from .inputs import convert_operands, in_common_dtype, is_double, on_default_device, plain_input
from .mistakes import explain, mixed_devices
from .modes import current_mode
from .node import Node, Outline
from .tensor import Tensor

PRIMITIVES = {}  # name -> Primitive
_KERNELS = {}  # (name, kind of backend) -> Kernel
_KINDS = {}  # type of array -> kind of backend
_recording_order = itertools.count(1)  # next() on it is atomic, so that threads can share it


class Kernel(NamedTuple):
    """The fast version of a primitive: see ``register_kernel``."""

    forward: Callable
    backward: Callable
    left_to_rule: tuple = ()  # names of inputs


class Primitive:
    """An operation with a hand-written backward, created by the decorator ``primitive``.

    Calling it on tensors runs its kernel (or its rule, if there is none) and records a node if an input requires a
    gradient. ``forward`` is the rule on arrays.
    """

    def __init__(self, forward, variadic=False, view=False, name=None):
        functools.update_wrapper(self, forward)
        self.name = name or forward.__name__
        self.forward = forward
        self.variadic = variadic
        self.view = view
        arguments = inspect.signature(forward).parameters.values()
        inputs = [a for a in arguments if a.kind is a.POSITIONAL_ONLY]
        self.input_names = tuple(a.name for a in inputs)
        self._input_defaults = {a.name: a.default for a in inputs if a.default is not a.empty}
        not_parameters = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
        self.parameter_names = tuple(a.name for a in arguments if a.kind not in not_parameters)
        if not inputs and not variadic:
            raise TypeError(
                f"primitive {self.name} has no inputs: write them before a slash, "
                f"as in def {self.name}(x, /, axis=-1)"
            )
        self.accumulate = None  # see accumulator
        self.vjps = {}  # position of the input -> function
        self._saved_positions = {}  # whether each input needs a cotangent -> (inputs to save, whether to save out)
        PRIMITIVES[self.name] = self

    # ------------------------------------------------------------------------------------------------ definition

    def vjp(self, function_or_name):
        """Decorator: register a vector-Jacobian product.

        ``@softmax.vjp`` for a primitive with one input (or a variadic one); ``@matmul.vjp("a")`` for the input ``a``.
        The function takes ``(g, out, *inputs, **parameters)`` and returns the cotangent of that input. Arguments with a
        leading underscore are not saved for backward: the differentiated input (all inputs, if variadic) is then
        replaced by its shape and dtype, and other arguments by None.
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
        """Decorator: register ``(array, g, **parameters)``, which adds the cotangent of the only input to an array.

        It is for cotangents that are new arrays of mostly zeros, as of indexing. Backward calls it instead of the
        product if another cotangent of the same input has arrived, so that reading a sequence token by token does not
        allocate a sequence of zeros for each token.
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
        """Raise TypeError if the input at ``position`` has no vector-Jacobian product."""
        if self.differentiable(position):
            return
        what, decorator = "", f"@{self.name}.vjp"
        if len(self.input_names) > 1:
            what = f" for its input {self.input_names[position]}"
            decorator += f'("{self.input_names[position]}")'
        raise TypeError(
            f"primitive {self.name} has no vjp{what}: write its backward with the decorator {decorator}, "
            "or pass x.detach() if no gradient is needed"
        )

    def cotangent(self, position, g, out, inputs, parameters):
        """The cotangent of one input, by the rule: an array for arrays, a recorded tensor for tensors."""
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
        """The inputs, as booleans, and whether the output is read by the products for the ``wanted`` inputs."""
        plan = self._saved_positions.get(wanted)
        if plan is None:
            save, save_out = [False] * len(wanted), False
            for position, is_wanted in enumerate(wanted):
                if not is_wanted or not self.differentiable(position):
                    continue
                product = self.vjps[0 if self.variadic else position]
                _, out, *names = inspect.signature(product).parameters
                if self.variadic:
                    names = names[:1] * len(wanted)  # *inputs stands for all of them
                save_out |= not out.startswith("_")
                for other, name in enumerate(names[: len(save)]):
                    save[other] |= not name.startswith("_")
            plan = self._saved_positions[wanted] = (tuple(save), save_out)
        return plan

    # ------------------------------------------------------------------------------------------------------- use

    def rule(self, *inputs, **parameters):
        """Call this primitive inside another rule: returns an array for arrays, a recorded tensor for tensors."""
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
        dtype_char = None
        foreign = mixed = False
        for value in inputs:
            if isinstance(value, Tensor):
                wanted.append(value._requires_grad)
                value = value._data
                if value.dtype.char != dtype_char:
                    mixed = mixed or dtype_char is not None
                    dtype_char = value.dtype.char
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
            mixed = True
        if mixed:
            common = in_common_dtype(inputs, self.differentiable)
            if common is not inputs:
                return self(*common, **parameters)

        kernel = None
        if mode.kernels:
            kind = _kind_of(array_type, arrays)
            if mode.simulated and kind == "strict":
                kind = "cuda"
            kernel = _KERNELS.get((self.name, kind))
        result = NotImplemented
        # No floating-point warnings, as on a GPU; detect_anomaly() finds the operation.
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
        """Cast ``out`` to float32 if NumPy promoted to float64 without float64 inputs, or bool or int8 to float16."""
        if parameters.get("dtype") is not None:
            return out
        with np.errstate(all="ignore"):
            if out.dtype.char == "d" and not any(is_double(array) for array in arrays):
                return out.astype(np.float32)
            if out.dtype.char == "e" and len(arrays) == 1 and arrays[0].dtype.kind in "biu":
                return self.forward(arrays[0].astype(np.float32), **parameters)
        return out

    def _record(self, tensor, inputs, arrays, parameters, wanted, kernel, residuals, line):
        parents = [
            (value._node or value) if is_wanted else None
            for value, is_wanted in zip(inputs, wanted)
        ]
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
        if save_out or residuals is not None:  # residuals may include the output
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
        """Save only the residuals of the kernel for backward; versions are still checked."""
        for name in kernel.left_to_rule:
            if node.parents[self.input_names.index(name)] is not None:
                return
        node.inputs = node.out = None

    def _bind(self, inputs, parameters):
        """Resolve inputs given by name or default, and parameters given by position."""
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
    """Decorator: define a primitive by its forward rule.

    Positional-only arguments (before the slash) are inputs: tensors, arrays, Python scalars or None. Other arguments
    are parameters, given by position or by name.

    Args:
        variadic: whether it has any number of inputs, as in ``def concatenate(*arrays, axis)``.
        view: whether the output may share memory with the first input.
        name: the registered name; by default that of the function.

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
    """Register a kernel, which runs instead of the rule of primitive ``name`` on backends of ``kind``.

    Args:
        forward: takes the arguments of the rule; returns ``(out, residuals)``, or NotImplemented to decline a call.
        backward: maps ``(g, residuals)`` to the cotangent, or to a tuple of cotangents, one per input, with None for
            inputs left to the rule. Cotangents must be new arrays or ``g`` itself; ``g`` and the residuals must not be
            modified.
        left_to_rule: names of the differentiable inputs for which backward returns None.

    A kernel is registered where it is defined, with the name of its primitive, as in ``kernels/cpu``:

    >>> import numpy as np
    >>> import tinyattn as ta
    >>> forward, backward = registered_kernels()["softmax", "cpu"]
    >>> out, residuals = forward(np.array([[0.0, 0.0]]), axis=-1)
    >>> out
    array([[0.5, 0.5]])
    """
    _KERNELS[name, kind] = Kernel(forward, backward, left_to_rule)


def registered_kernels():
    """All kernels: ``(name, kind) -> (forward, backward)``."""
    return {key: (kernel.forward, kernel.backward) for key, kernel in _KERNELS.items()}


def kernel_kind(array):
    """The kind of backend whose kernels run on ``array`` in the current mode."""
    kind = _kind_of(type(array), [array])
    return "cuda" if kind == "strict" and current_mode.get().simulated else kind


def _kind_of(array_type, arrays):
    """The kind of backend of an array type, cached."""
    kind = _KINDS.get(array_type)
    if kind is None:
        array = next(array for array in arrays if type(array) is array_type)
        kind = _KINDS[array_type] = backend_of(array).kind
    return kind
