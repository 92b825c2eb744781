"""Kernels of whole layers: a module, such as a transformer block, as one operation of the graph.

A layer kernel takes fewer launches than the operations of the module. It runs only in ``first_order()``, that is in a
training step, because there is no rule from which second-order gradients could be computed. The definition is the
``forward`` of the module, which runs if no kernel is registered for the device.
"""

import numpy as np

from .modes import current_mode
from .node import Node
from .primitive import _recording_order, kernel_kind
from .tensor import Tensor

_LAYERS = {}  # (name, kind of backend) -> LayerKernel


class LayerKernel:
    """The kernel of a layer, with the attributes of a primitive that the backward pass reads."""

    accumulate = None

    def __init__(self, name, forward, backward):
        self.name = name
        self.input_names = ()
        self._forward = forward
        self._backward = backward

    def __call__(self, *inputs, **options):
        """The output of the layer, a Tensor; NotImplemented if the kernel does not support the inputs.

        Args:
            inputs: Tensors of one device, or None.
            options: further arguments of the kernel's ``forward``.
        """
        arrays = [None if value is None else value._data for value in inputs]
        with np.errstate(all="ignore"):  # no floating-point warnings, as on a GPU
            result = self._forward(*arrays, **options)
        if result is NotImplemented:
            return NotImplemented
        out, residuals = result
        tensor = Tensor._wrap(out)
        tensors = [(i, value) for i, value in enumerate(inputs) if value is not None]
        if not any(value._requires_grad for _, value in tensors):
            return tensor
        node = Node()
        node.primitive = self
        node.parameters = {}
        node.parents = [None] * len(inputs)
        for position, value in tensors:
            if value._requires_grad:
                node.parents[position] = value._node or value
        node.inputs = node.out = None
        versions = [(value._version, value._version[0], i) for i, value in tensors]
        node.versions = [*versions, (tensor._version, tensor._version[0], None)]
        node.backward = self._backward
        node.residuals = residuals
        node.shape = out.shape
        node.dtype = out.dtype
        node.order = next(_recording_order)
        node.hooks = node.retained = node.line = None
        tensor._node = node
        tensor._requires_grad = True
        return tensor


def register_layer(name, kind, forward, backward):
    """Register a kernel of the layer ``name`` for backends of ``kind``.

    Args:
        forward: maps arrays and options to ``(out, residuals)``, or returns NotImplemented to decline a call.
        backward: maps ``(g, residuals)`` to a tuple of cotangents, one per input, as in ``register_kernel``; None for
            an input that needs none.
    """
    _LAYERS[name, kind] = LayerKernel(name, forward, backward)


def find_layer(name, tensor):
    """The ``LayerKernel`` for a tensor's device in the current mode, or None.

    >>> import tinyattn as ta
    >>> find_layer("transformer_block", ta.ones((1, 3, 8))) is None  # there is none for the CPU
    True
    """
    mode = current_mode.get()
    if not (mode.first_order and mode.grad and mode.kernels) or mode.anomaly or mode.watch:
        return None
    return _LAYERS.get((name, kernel_kind(tensor._data)))
