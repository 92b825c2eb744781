"""PyTorch functions, ``torch.autograd.Function``s and modules as problems.

Each evaluation runs the function on new leaf tensors, which on a CPU share the memory of the working copies.
Parameters of modules hold the working copies during the check and their own data after it.
"""

import contextlib
import sys

import numpy as np

from ..arrays import copy_of, poisoned_empty, strided_copy
from ..bits import same_bits
from ..containers import flatten, rebuild
from ..problem import Argument, Problem
from ..report import Finding
from ..reproduce import function_name

MAX_CALLS = 100


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
        _function_class(fn)
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
        elif _is_floating(leaf):
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
        if id(parameter) not in seen and parameter.requires_grad and _is_floating(parameter):
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
        outputs = [leaf for _, leaf in flatten(result, "output") if _is_floating(leaf)]
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
        with _inspected(_function_classes(outputs), self.findings):
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
        nodes = _nodes(self.run()[1])
        return tuple(dict.fromkeys(node.name() for node in reversed(nodes) if _counts(node)))

    def culprit(self, cotangents):
        """The autograd node of the first operation whose own gradient is wrong."""
        from ..check import gradient_report  # which calls this method

        for name, call, inputs in self._calls():
            if not gradient_report(call, inputs, mode="directional", directions=3).passed:
                return name
        return None

    def _calls(self):
        """``(node, function of tensors, tensors)`` for each operation that runs."""
        recorder = _recorder()
        with _forward_replaced(_function_classes(self.run()[1]), recorder.custom), recorder:
            self.run()
        return recorder.calls[:MAX_CALLS]

    @contextlib.contextmanager
    def running(self):
        """Parameters and buffers are copies inside the block, and what they were after it."""
        own = [(a.parameter, a.parameter.data) for a in self.arguments if a.parameter is not None]
        buffers = [b for module in self._modules for b in module.buffers() if _is_floating(b)]
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


def array_of(tensor, dtype=None):
    """The values of a tensor as a NumPy array of their own; bfloat16 needs ml_dtypes."""
    torch = sys.modules["torch"]
    tensor = torch.as_tensor(tensor).detach().cpu()
    if dtype is not None:
        tensor = tensor.to(tensor_of(np.zeros(1, dtype)).dtype)
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(_bfloat16()).copy()
    return tensor.numpy().copy(order="K")


def tensor_of(array):
    """A tensor that shares the memory of a NumPy array."""
    torch = sys.modules["torch"]
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _bfloat16():
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(
            "an input is bfloat16, which NumPy lacks: install ml_dtypes, or pass upcast=True "
            "to check a float64 copy"
        ) from None
    return ml_dtypes.bfloat16


def _is_floating(value):
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        return value.is_floating_point() or value.is_complex()
    return isinstance(value, np.ndarray) and value.dtype.kind in "fc"


# --------------------------------------------------------------------------------------------- the graph and its nodes


def _function_class(fn):
    """The ``torch.autograd.Function`` that ``fn`` is, or whose ``apply`` it is; else None."""
    base = sys.modules["torch"].autograd.Function
    for value in (fn, getattr(fn, "__self__", None)):
        if isinstance(value, type) and issubclass(value, base):
            return value
    return None


def _nodes(outputs):
    """The nodes of the graph, each before those that it passes gradients to."""
    stack = [output.grad_fn for output in outputs if output.grad_fn is not None]
    waiting, order = {}, []
    reachable, unseen = set(stack), list(stack)
    while unseen:
        for following, _ in unseen.pop().next_functions:
            if following is not None:
                waiting[following] = waiting.get(following, 0) + 1
                if following not in reachable:
                    reachable.add(following)
                    unseen.append(following)
    ready = [node for node in dict.fromkeys(stack) if not waiting.get(node)]
    while ready:
        node = ready.pop()
        order.append(node)
        for following, _ in node.next_functions:
            if following is not None:
                waiting[following] -= 1
                if not waiting[following]:
                    ready.append(following)
    return order


def _counts(node):
    return not node.name().endswith("AccumulateGrad")


def _function_classes(outputs):
    """The ``torch.autograd.Function``s whose nodes are in the graph."""
    classes = [getattr(node, "_forward_cls", None) for node in _nodes(outputs)]
    return list(dict.fromkeys(cls for cls in classes if cls is not None))


@contextlib.contextmanager
def _replaced(classes, name, make):
    """A static method of classes is ``make(class, method)`` inside the block."""
    methods = [(cls, getattr(cls, name), cls.__dict__.get(name)) for cls in classes]
    try:
        for cls, method, _ in methods:
            setattr(cls, name, staticmethod(make(cls, method)))
        yield
    finally:
        for cls, _, own in methods:
            if own is None:
                delattr(cls, name)
            else:
                setattr(cls, name, own)


def _forward_replaced(classes, record):
    """Calls of ``forward`` go to ``record(class, arguments)`` first."""
    base = sys.modules["torch"].autograd.Function

    def make(cls, forward):
        has_context = cls.setup_context is base.setup_context

        def recorded(*arguments):
            record(cls, arguments[1:] if has_context else arguments)
            return forward(*arguments)

        return recorded

    return _replaced(classes, "forward", make)


def _inspected(classes, findings):
    """Calls of ``backward`` make ``Finding``s of what PyTorch forgives or does not see."""

    def add(kind, text):
        if not any((finding.kind, finding.text) == (kind, text) for finding in findings):
            findings.append(Finding(kind, None, text))

    def make(cls, backward):
        def inspected(ctx, *cotangents):
            before = [None if c is None else c.clone() for c in cotangents]
            result = backward(ctx, *cotangents)
            for cotangent, held in zip(cotangents, before, strict=True):
                if held is not None and not same_bits(array_of(cotangent), array_of(held)):
                    add("changes its cotangent", f"{cls.__name__}.backward writes to its argument")
            expected = _dtypes_of_inputs(ctx)
            gradients = result if isinstance(result, tuple) else (result,)
            for position, gradient in enumerate(gradients):
                if gradient is not None and expected and gradient.dtype not in expected:
                    add(
                        "wrong dtype",
                        f"{cls.__name__}.backward returns gradient {position} as {gradient.dtype}, "
                        f"expected {' or '.join(map(str, expected))}; PyTorch converts it, too late",
                    )
            return result

        return inspected

    return _replaced(classes, "backward", make)


def _dtypes_of_inputs(node):
    """The dtypes of the tensors to which a node passes gradients, where PyTorch tells."""
    following = [(n, position) for n, position in node.next_functions if n is not None]
    if not all(hasattr(n, "_input_metadata") for n, _ in following):
        return []
    return list(dict.fromkeys(n._input_metadata[position].dtype for n, position in following))


def _recorder():
    """A ``TorchFunctionMode`` that records the differentiable calls, each with copies of its tensors."""
    torch = sys.modules["torch"]

    class Recorder(torch.overrides.TorchFunctionMode):
        calls: list

        def __init__(self):
            super().__init__()
            self.calls = []

        def custom(self, cls, arguments):
            self._add(f"{cls.__name__}Backward", cls.apply, arguments, {})

        def __torch_function__(self, function, types, arguments=(), options=None):
            options = options or {}
            before = [value for _, value in flatten(arguments, "")]
            needed = [x for x in before if isinstance(x, torch.Tensor) and x.requires_grad]
            copies = rebuild(arguments, iter([_detached(value) for value in before]))
            result = function(*arguments, **options)
            node = getattr(result, "grad_fn", None)
            is_custom = hasattr(node, "_forward_cls")
            if needed and node is not None and torch.is_grad_enabled() and not is_custom:
                self._add(node.name(), function, copies, options)
            return result

        def _add(self, name, function, arguments, options):
            if len(self.calls) >= MAX_CALLS:
                return
            tensors = [
                (position, _detached(value))
                for position, value in enumerate(arguments)
                if isinstance(value, torch.Tensor) and value.dtype == torch.float64
            ]
            if not tensors:
                return
            fixed = [_detached(value) for value in arguments]

            def call(*checked):
                passed = list(fixed)
                for (position, _), tensor in zip(tensors, checked, strict=True):
                    passed[position] = tensor
                return function(*passed, **options)

            call.__name__ = name
            self.calls.append((name, call, [copy for _, copy in tensors]))

    return Recorder()


def _detached(value):
    torch = sys.modules["torch"]
    return value.detach().clone() if isinstance(value, torch.Tensor) else copy_of(value)
