"""The function under check in terms of arrays: its values at a point, and its gradients there.

A problem owns working copies of its arguments, and the checker moves one element of them at a time. The user's tensors
are never written to. The parameters of a module use the working copies during the check and get their own arrays back
after it. This is the only module of the checker that uses private attributes of a Tensor.
"""

import contextlib
import itertools

import numpy as np

from ..autograd import Tensor, enable_grad, grad
from ..backend import backend_of, listed
from .containers import flatten, rebuild
from .numeric import Line


class Argument:
    """One array whose gradient is checked.

    ``array`` is the working copy, on its device. Its elements do not overlap in memory (in an expanded input one
    element would move in several places), but the order of its axes is kept, so that a transposed input stays so.
    """

    def __init__(self, name, original, parameter=None, dtype=None, backend=None):
        self.name = name
        self.parameter = parameter
        source = original._data if isinstance(original, Tensor) else original
        self.backend = backend or backend_of(source)
        self.start = np.array(backend_of(source).to_host(source), dtype=dtype, order="K")
        self.array = self.backend.asarray(self.start.copy(order="K"))

    @property
    def shape(self):
        return self.start.shape

    def indices(self):
        return itertools.product(*map(range, self.start.shape))

    def move(self, index, distance):
        """Move one element, or all along a direction (an array as ``index``), to a distance from the start."""
        if isinstance(index, tuple):
            self.array[index] = self.start[index] + distance
        else:
            self.array[...] = self.backend.asarray(self.start + distance * index)

    def restore(self, index):
        """Undo ``move``, bit for bit."""
        if isinstance(index, tuple):
            self.array[index] = self.start[index]
        else:
            self.array[...] = self.backend.asarray(self.start.copy())

    def unchanged(self):
        """Whether the working copy still holds the start."""
        held = np.asarray(self.backend.to_host(self.array))
        return held.shape == self.start.shape and held.tobytes() == self.start.tobytes()


class Problem:
    """What first and second order share: ``values()``, ``gradients(cotangents)``, and lines through the point."""

    def line(self, argument, place, cotangents):
        """The values along one line, as a ``Line``: ``place`` is an index, or a direction as an array."""

        def values(distance):
            argument.move(place, distance)
            try:
                return self.values()
            finally:
                argument.restore(place)

        return Line(values, cotangents)


class FirstOrder(Problem):
    """The function itself: values are its outputs, gradients those of its arguments."""

    order = 1

    def __init__(self, fn, inputs, arguments, slots):
        self._fn = fn
        self._inputs = inputs
        # For each leaf of the inputs: its Argument, or the value that is passed on unchanged.
        self._slots = slots
        self.arguments = arguments
        self.evaluations = 0

    def run(self):
        """Call the function on fresh leaf tensors: ``(leaves, outputs)``, both in a fixed order."""
        self.evaluations += 1
        tensors = {}
        for argument in self.arguments:
            if argument.parameter is not None:
                tensors[argument] = argument.parameter
                argument.parameter.bump_version()
            else:
                tensors[argument] = Tensor._wrap(argument.array)
                tensors[argument].requires_grad = True
        passed = (tensors[s] if isinstance(s, Argument) else s for s in self._slots)
        inputs = rebuild(self._inputs, passed)
        with enable_grad():
            result = self._fn(*inputs) if isinstance(inputs, (tuple, list)) else self._fn(inputs)
        return [tensors[argument] for argument in self.arguments], outputs_of(result)

    def values(self):
        _, outputs = self.run()
        return [output.numpy() for output in outputs]

    def gradients(self, cotangents):
        """The gradient of each argument as a host array, None where the graph does not reach it."""
        leaves, outputs = self.run()
        return _on_host(_gradients(outputs, leaves, self.as_tensors(cotangents, outputs)))

    def with_dtype(self, dtype):
        """The same function with working copies of another dtype."""
        twins = {
            a: Argument(a.name, a.start, a.parameter, dtype, a.backend) for a in self.arguments
        }
        slots = [twins.get(s, s) if isinstance(s, Argument) else s for s in self._slots]
        return FirstOrder(self._fn, self._inputs, list(twins.values()), slots)

    @staticmethod
    def as_tensors(cotangents, outputs):
        return [
            None if c is None else Tensor(c, dtype=o.dtype, device=o.device)
            for c, o in zip(cotangents, outputs, strict=True)
        ]


class SecondOrder(Problem):
    """The gradient as a function of the arguments and of the cotangents; it is differentiated by both.

    Its values come from an ordinary backward pass, with kernels; its gradients from a recorded one, by the rules.
    """

    order = 2

    def __init__(self, first, cotangents):
        self._first = first
        self._cotangents = [
            Argument("cotangent" if len(cotangents) == 1 else f"cotangent[{position}]", cotangent)
            for position, cotangent in enumerate(cotangents)
        ]  # on the host; each call copies them to the device of the output
        self.arguments = [*first.arguments, *self._cotangents]

    @property
    def evaluations(self):
        return self._first.evaluations

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

    def gradients(self, cotangents):
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
    """The floating-point tensors in what a function returned."""
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
    """Parameters hold the working copies inside the block, and their own arrays after it."""
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
