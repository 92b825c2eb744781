"""Problems for functions of tinyattn tensors, of first order and of second order (gradients of gradients).

The user's tensors are never written to. The parameters of a module use the working copies during the check; their own
arrays are restored after it. This is the only module of the checker that uses private attributes of a Tensor.
"""

import contextlib

import numpy as np

from ..autograd import Tensor, enable_grad, grad
from ..backend import backend_of, is_array, listed, native_dtype
from .arrays import poisoned_empty, strided_copy
from .containers import flatten, rebuild
from .culprit import find_culprit, operations_of
from .problem import Argument, Problem
from .reproduce import function_name


class TensorArgument(Argument):
    """An argument whose working copy is on its device, and which may be a parameter of a module."""

    def __init__(self, name, original, parameter=None, dtype=None, backend=None):
        source = original._data if isinstance(original, Tensor) else original
        self.parameter = parameter
        self.backend = backend or backend_of(source)
        super().__init__(name, backend_of(source).to_host(source), dtype)
        self.array = self.backend.asarray(self.array)

    def _to_device(self, values):
        return self.backend.asarray(values)

    def _to_host(self):
        return np.asarray(self.backend.to_host(self.array))


def tensor_problem(fn, inputs, params=(), dtype=None):
    """The problem of a function of tensors, for ``inputs`` and ``params`` as ``gradcheck`` takes them.

    Args:
        dtype: the dtype of the working copies; that of each input if None.
    """
    leaves = flatten(inputs, "inputs")
    only_required = any(isinstance(leaf, Tensor) and leaf.requires_grad for _, leaf in leaves)
    arguments, slots, in_modules = [], [], []
    for name, leaf in leaves:
        slots.append(leaf)
        if hasattr(leaf, "named_parameters"):
            in_modules += [(f"{name}.{inner}", p) for inner, p in leaf.named_parameters()]
            continue
        if isinstance(leaf, Tensor):
            wanted = leaf.requires_grad or not only_required
        else:
            wanted = is_array(leaf) and not only_required
        if wanted and leaf.dtype.kind in "fc":
            slots[-1] = TensorArgument(name, leaf, dtype=dtype or native_dtype(leaf.dtype))
            arguments.append(slots[-1])
    seen = set()
    for name, parameter in [*in_modules, *named_parameters(params)]:
        if id(parameter) not in seen and parameter.dtype.kind in "fc":
            seen.add(id(parameter))
            arguments.append(TensorArgument(name, parameter, parameter, dtype or parameter.dtype))
    return FirstOrder(fn, inputs, arguments, slots)


class FirstOrder(Problem):
    """The function itself: values are its outputs, gradients those of its arguments."""

    def __init__(self, fn, inputs, arguments, slots):
        super().__init__(arguments)
        self.name = function_name(fn)
        self._fn = fn
        self._inputs = inputs
        # For each leaf of the inputs: its Argument, or the value that is passed on unchanged.
        self._slots = slots

    def run(self, strided=False):
        """Call the function on fresh leaf tensors: ``(leaves, outputs)``, both in a fixed order."""
        self.evaluations += 1
        tensors = {}
        for argument in self.arguments:
            if argument.parameter is not None:
                tensors[argument] = argument.parameter
                argument.parameter.bump_version()
            else:
                array = argument.array
                array = strided_copy(array) if strided and isinstance(array, np.ndarray) else array
                tensors[argument] = Tensor._wrap(array)
                tensors[argument].requires_grad = True
        passed = (tensors[s] if isinstance(s, Argument) else s for s in self._slots)
        inputs = rebuild(self._inputs, passed)
        with enable_grad():
            result = self._fn(*inputs) if isinstance(inputs, (tuple, list)) else self._fn(inputs)
        return [tensors[argument] for argument in self.arguments], outputs_of(result)

    def values(self):
        _, outputs = self.run()
        return [output.numpy() for output in outputs]

    def gradients(self, cotangents, strided=False):
        leaves, outputs = self.run(strided)
        if strided:
            cotangents = [strided_copy(cotangent) for cotangent in cotangents]
        return _on_host(_gradients(outputs, leaves, self.as_tensors(cotangents, outputs)))

    def with_dtype(self, dtype):
        twins = {
            a: TensorArgument(a.name, a.start, a.parameter, dtype, a.backend)
            for a in self.arguments
        }
        slots = [twins.get(s, s) if isinstance(s, Argument) else s for s in self._slots]
        twin = FirstOrder(self._fn, self._inputs, list(twins.values()), slots)
        twin.call = self.call
        return twin

    def second_order(self, cotangents):
        return SecondOrder(self, cotangents)

    def operations(self):
        return operations_of(self)

    def culprit(self, cotangents):
        return find_culprit(self)

    def running(self):
        return parameters_swapped(self.arguments)

    @contextlib.contextmanager
    def undefined_memory(self):
        with poisoned_empty():
            yield

    @staticmethod
    def as_tensors(cotangents, outputs):
        return [
            None if c is None else Tensor(c, dtype=o.dtype, device=o.device)
            for c, o in zip(cotangents, outputs, strict=True)
        ]


class SecondOrder(Problem):
    """The gradient as a function of the arguments and the cotangents, differentiated with respect to both.

    Its values come from an ordinary backward pass, with kernels; its gradients from a recorded one, with the rules.
    """

    order = 2

    def __init__(self, first, cotangents):
        self._first = first
        self._cotangents = [
            TensorArgument(
                "cotangent" if len(cotangents) == 1 else f"cotangent[{position}]", cotangent
            )
            for position, cotangent in enumerate(cotangents)
        ]  # on the host; each call copies them to the device of the output
        self.arguments = [*first.arguments, *self._cotangents]
        self.name, self.call, self.findings = first.name, first.call, first.findings

    @property
    def evaluations(self):
        return self._first.evaluations

    def operations(self):
        return self._first.operations()

    def culprit(self, cotangents):
        return find_culprit(self._first)

    def run(self, create_graph):
        leaves, outputs = self._first.run()
        cotangents = []
        for argument, output in zip(self._cotangents, outputs, strict=True):
            cotangent = Tensor(argument.array, True, dtype=output.dtype, device=output.device)
            cotangents.append(cotangent)
        firsts = _gradients(outputs, leaves, cotangents, create_graph)
        # An argument that the graph does not reach has a gradient of zero everywhere.
        return leaves + cotangents, [first for first in firsts if first is not None]

    def values(self):
        return [first.numpy() for first in self.run(create_graph=False)[1]]

    def gradients(self, cotangents, strided=False):
        leaves, firsts = self.run(create_graph=True)
        return _on_host(_gradients(firsts, leaves, FirstOrder.as_tensors(cotangents, firsts)))


def _gradients(outputs, leaves, cotangents, create_graph=False):
    pairs = [(o, c) for o, c in zip(outputs, cotangents, strict=True) if o.requires_grad]
    if not pairs:
        return [None] * len(leaves)
    return grad(
        [output for output, _ in pairs],
        leaves,
        grad_outputs=[cotangent for _, cotangent in pairs],
        create_graph=create_graph,
        allow_unused=True,
    )


def _on_host(gradients):
    return [None if gradient is None else gradient.numpy() for gradient in gradients]


def outputs_of(result):
    """The floating-point tensors in the result of a function."""
    leaves = flatten(result, "output")
    outputs = [leaf for _, leaf in leaves if isinstance(leaf, Tensor) and leaf.dtype.kind in "fc"]
    if not outputs:
        kinds = ", ".join(sorted({type(leaf).__name__ for _, leaf in leaves})) or "nothing"
        raise TypeError(
            f"the function returned {kinds}: expected a floating-point Tensor, or a container with one"
        )
    return outputs


def named_parameters(params):
    """Parameters of a module, of a mapping, or of a sequence, as ``(name, tensor)``; each tensor once."""
    if hasattr(params, "named_parameters"):
        named = list(params.named_parameters())
    elif isinstance(params, Tensor):
        named = [("params", params)]
    elif hasattr(params, "items"):
        named = list(params.items())
    else:
        named = []
        for position, item in enumerate(listed(params, "params")):
            if hasattr(item, "named_parameters"):
                named += [(f"[{position}].{name}", p) for name, p in item.named_parameters()]
            elif isinstance(item, tuple):
                named.append(item)
            else:
                named.append((f"params[{position}]", item))
    seen, once = set(), []
    for name, tensor in named:
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"params holds {type(tensor).__name__} under {name}: expected tensors or modules"
            )
        if id(tensor) not in seen:
            seen.add(id(tensor))
            once.append((name, tensor))
    return once


@contextlib.contextmanager
def parameters_swapped(arguments):
    """Parameters have the working copies as data in a ``with`` block, and their own arrays after it."""
    swapped = [argument for argument in arguments if argument.parameter is not None]
    own = [(a.parameter, a.parameter._data, a.parameter._requires_grad) for a in swapped]
    try:
        for argument in swapped:
            argument.parameter._data = argument.array
            argument.parameter._requires_grad = True
        yield
    finally:
        for parameter, array, requires_grad in own:
            parameter._data = array
            parameter._requires_grad = requires_grad
            parameter.bump_version()
