"""PyTorch functions, ``torch.autograd.Function``s and modules as problems.

Each evaluation runs the function on new leaf tensors, which on a CPU share the memory of the working copies.
Parameters of modules hold the working copies during the check and their own data after it.
"""

import contextlib
import sys

import numpy as np

from ..arrays import poisoned_empty, strided_copy
from ..containers import flatten, rebuild
from ..problem import Argument, Problem
from ..reproduce import function_name
from .pytorch_calls import forward_replaced, inspected, recorder
from .pytorch_graph import function_class, function_classes, nodes
from .pytorch_tensors import array_of, is_floating, tensor_of


class TorchArgument(Argument):
    """An argument that is passed as a tensor, or that is a parameter of a module."""

    def __init__(self, name, original, parameter=None, dtype=None, device="cpu"):
        values = original if isinstance(original, np.ndarray) else array_of(original, dtype)
        super().__init__(name, values, dtype)
        self.parameter = parameter
        self.device = device

    def tensor(self, strided=False):
        """The working copy as a tensor."""
        array = strided_copy(self.array) if strided else self.array
        return tensor_of(array).to(self.device)


def torch_problem(fn, inputs, params=(), dtype=None):
    """The problem of a PyTorch function, for ``inputs`` and ``params`` as ``gradcheck`` takes them.

    It is one if ``fn`` is a module, a subclass of ``torch.autograd.Function`` or the ``apply`` of one, or if the inputs
    or parameters hold tensors or modules of PyTorch. The parameters of modules are checked too, those of ``fn`` and of
    the inputs as well as ``params``. Returns None for any other function.
    """
    torch = sys.modules.get("torch")
    if not hasattr(torch, "nn"):
        return None
    leaves = flatten(inputs, "inputs")
    given = list(params.values()) if isinstance(params, dict) else params
    given = list(given) if isinstance(given, (tuple, list)) else [given]
    kinds = (torch.Tensor, torch.nn.Module)
    named = [value[-1] if isinstance(value, tuple) else value for value in given]
    if not (
        function_class(fn)
        or isinstance(fn, torch.nn.Module)
        or any(isinstance(value, kinds) for value in [*(leaf for _, leaf in leaves), *named])
    ):
        return None

    only_required = any(isinstance(x, torch.Tensor) and x.requires_grad for _, x in leaves)
    arguments, slots, parameters, modules = [], [], [], []
    if isinstance(fn, torch.nn.Module):
        modules.append(fn)
        parameters += fn.named_parameters()
    for name, leaf in leaves:
        slots.append(leaf)
        if isinstance(leaf, torch.nn.Module):
            modules.append(leaf)
            parameters += [(f"{name}.{inner}", p) for inner, p in leaf.named_parameters()]
        elif is_floating(leaf):
            wanted = not only_required or getattr(leaf, "requires_grad", False)
            if wanted:
                device = getattr(leaf, "device", "cpu")
                slots[-1] = TorchArgument(name, leaf, dtype=dtype, device=device)
                arguments.append(slots[-1])
    for position, value in enumerate(given):
        if isinstance(value, torch.nn.Module):
            modules.append(value)
            prefix = "" if value is params else f"params[{position}]."
            parameters += [(f"{prefix}{inner}", p) for inner, p in value.named_parameters()]
        elif isinstance(value, tuple):
            parameters.append(value)
        else:
            name = list(params)[position] if isinstance(params, dict) else f"params[{position}]"
            parameters.append((name, value))
    seen = set()
    for name, parameter in parameters:
        if id(parameter) not in seen and parameter.requires_grad and is_floating(parameter):
            seen.add(id(parameter))
            arguments.append(TorchArgument(name, parameter, parameter, dtype, parameter.device))
    return TorchProblem(fn, inputs, arguments, slots, modules, dtype)


class TorchProblem(Problem):
    """The function: values are its outputs, gradients those of ``torch.autograd.grad``."""

    def __init__(self, fn, inputs, arguments, slots, modules, dtype):
        super().__init__(arguments)
        self._function = fn
        self._call = fn.apply if isinstance(fn, type) else fn
        self.name = function_name(fn)
        self._inputs = inputs
        self._slots = slots  # for each leaf of the inputs: its Argument, or what is passed on
        self._modules = modules
        self._dtype = dtype

    def run(self, strided=False):
        """Call the function on new leaf tensors: ``(leaves, outputs)``, both in a fixed order."""
        torch = sys.modules["torch"]
        self.evaluations += 1
        tensors = {}
        for argument in self.arguments:
            if argument.parameter is not None:
                tensors[argument] = argument.parameter
                argument.parameter.data = argument.tensor()
            else:
                tensors[argument] = argument.tensor(strided).requires_grad_()
        passed = iter([tensors[s] if isinstance(s, Argument) else s for s in self._slots])
        inputs = rebuild(self._inputs, passed)
        with torch.enable_grad():
            result = (
                self._call(*inputs) if isinstance(inputs, (tuple, list)) else self._call(inputs)
            )
        outputs = [leaf for _, leaf in flatten(result, "output") if is_floating(leaf)]
        if not outputs:
            raise TypeError(
                f"{self.name} returned {type(result).__name__}: expected a floating-point tensor, "
                "or a container with one"
            )
        return [tensors[argument] for argument in self.arguments], outputs

    def values(self):
        return [array_of(output) for output in self.run()[1]]

    def gradients(self, cotangents, strided=False):
        torch = sys.modules["torch"]
        leaves, outputs = self.run(strided)
        pairs = [
            (output, tensor_of(strided_copy(c) if strided else c.copy()).to(output))
            for output, c in zip(outputs, cotangents, strict=True)
            if output.requires_grad
        ]
        if not pairs:
            return [None] * len(leaves)
        with inspected(function_classes(outputs), self.findings):
            gradients = torch.autograd.grad(
                [output for output, _ in pairs],
                leaves,
                [cotangent for _, cotangent in pairs],
                allow_unused=True,
            )
        return [None if gradient is None else array_of(gradient) for gradient in gradients]

    def with_dtype(self, dtype):
        twins = {
            a: TorchArgument(a.name, a.start, a.parameter, dtype, a.device) for a in self.arguments
        }
        slots = [twins.get(s, s) if isinstance(s, Argument) else s for s in self._slots]
        inputs = (self._inputs, list(twins.values()), slots, self._modules)
        twin = TorchProblem(self._function, *inputs, dtype)
        twin.call = self.call
        return twin

    def operations(self):
        """The names of the autograd nodes, from the inputs to the outputs."""
        names = [node.name() for node in reversed(nodes(self.run()[1]))]
        return tuple(dict.fromkeys(n for n in names if not n.endswith("AccumulateGrad")))

    def culprit(self, cotangents):
        """The autograd node of the first operation whose own gradient is wrong."""
        from ..check import gradient_report  # which calls this method

        for name, call, inputs in self._calls():
            if not gradient_report(call, inputs, mode="directional", directions=3).passed:
                return name
        return None

    def _calls(self):
        """``(node, function of tensors, tensors)`` for each operation that runs."""
        recorded = recorder()
        with forward_replaced(function_classes(self.run()[1]), recorded.custom), recorded:
            self.run()
        return recorded.calls

    @contextlib.contextmanager
    def running(self):
        """Parameters and buffers are copies inside the block, and what they were after it."""
        own = [(a.parameter, a.parameter.data) for a in self.arguments if a.parameter is not None]
        buffers = [b for module in self._modules for b in module.buffers() if is_floating(b)]
        own += [(buffer, buffer.data) for buffer in buffers]
        try:
            for buffer in buffers:
                copy = buffer.data.clone()
                if self._dtype is not None:
                    copy = copy.to(tensor_of(np.zeros(1, self._dtype)).dtype)
                buffer.data = copy
            yield
        finally:
            for tensor, data in own:
                tensor.data = data

    @contextlib.contextmanager
    def undefined_memory(self):
        torch = sys.modules["torch"]
        settings = torch.utils.deterministic
        enabled = torch.are_deterministic_algorithms_enabled()
        warns = torch.is_deterministic_algorithms_warn_only_enabled()
        fills = settings.fill_uninitialized_memory
        try:
            torch.use_deterministic_algorithms(True, warn_only=True)
            settings.fill_uninitialized_memory = True
            with poisoned_empty():
                yield
        finally:
            torch.use_deterministic_algorithms(enabled, warn_only=warns)
            settings.fill_uninitialized_memory = fills
