"""Observe the calls of a PyTorch function: its operations, and the backward passes of ``torch.autograd.Function``s."""

import contextlib
import sys

import numpy as np

from ..bits import same_bits
from ..containers import flatten, rebuild
from ..report import Finding
from .pytorch_tensors import array_of

MAX_CALLS = 100


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


def forward_replaced(classes, record):
    """Calls of ``forward`` go to ``record(class, arguments)`` first."""
    base = sys.modules["torch"].autograd.Function

    def make(cls, forward):
        has_context = cls.setup_context is base.setup_context

        def recorded(*arguments):
            record(cls, arguments[1:] if has_context else arguments)
            return forward(*arguments)

        return recorded

    return _replaced(classes, "forward", make)


def inspected(classes, findings):
    """Calls of ``backward`` make ``Finding``s of what PyTorch tolerates or does not detect."""

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
    """The dtypes of the tensors to which a node passes gradients, if PyTorch exposes them."""
    following = [(n, position) for n, position in node.next_functions if n is not None]
    if not all(hasattr(n, "_input_metadata") for n, _ in following):
        return []
    return list(dict.fromkeys(n._input_metadata[position].dtype for n, position in following))


def recorder():
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
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    return value.copy() if isinstance(value, np.ndarray) else value
