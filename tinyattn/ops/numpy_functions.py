"""NumPy's functions called with tensors dispatch to operations: ``np.exp(x)`` is ``tinyattn.exp(x)``.

>>> import numpy as np
>>> import tinyattn as ta
>>> x = ta.tensor([1.0, 4.0], requires_grad=True)
>>> np.sum(np.sqrt(x)).backward()
>>> x.grad
Tensor([0.5 , 0.25])
"""

import functools
import inspect

import numpy as np

from ..autograd import Tensor
from ..autograd.numpy_protocol import record_as
from . import (
    arithmetic,
    conversion,
    creation,
    exponential,
    indexing,
    linear_algebra,
    reductions,
    selection,
    shape,
    trigonometric,
)

UFUNCS = {
    np.add: arithmetic.add,
    np.subtract: arithmetic.sub,
    np.multiply: arithmetic.mul,
    np.divide: arithmetic.div,
    np.power: arithmetic.power,
    np.negative: arithmetic.neg,
    np.absolute: arithmetic.absolute,
    np.square: arithmetic.square,
    np.exp: exponential.exp,
    np.expm1: exponential.expm1,
    np.log: exponential.log,
    np.log1p: exponential.log1p,
    np.sqrt: exponential.sqrt,
    np.sin: trigonometric.sin,
    np.cos: trigonometric.cos,
    np.tanh: trigonometric.tanh,
    np.maximum: selection.maximum,
    np.minimum: selection.minimum,
    np.matmul: linear_algebra.matmul,
}

# Comparisons and bitwise operators of a tensor and their reflections; the result is an array, without gradient.
LOGIC = {
    np.equal: ("__eq__", "__eq__"),
    np.not_equal: ("__ne__", "__ne__"),
    np.less: ("__lt__", "__gt__"),
    np.less_equal: ("__le__", "__ge__"),
    np.greater: ("__gt__", "__lt__"),
    np.greater_equal: ("__ge__", "__le__"),
    np.bitwise_and: ("__and__", "__rand__"),
    np.bitwise_or: ("__or__", "__ror__"),
    np.bitwise_xor: ("__xor__", "__rxor__"),
}

# The operation for each function, and the names of NumPy's arguments in order.
FUNCTIONS = {
    np.sum: (reductions.sum, "a axis dtype out keepdims"),
    np.mean: (reductions.mean, "a axis dtype out keepdims"),
    np.var: (reductions.var, "a axis dtype out ddof keepdims"),
    np.std: (reductions.std, "a axis dtype out ddof keepdims"),
    np.prod: (reductions.prod, "a axis dtype out keepdims"),
    np.max: (reductions.max, "a axis out keepdims"),
    np.amax: (reductions.max, "a axis out keepdims"),
    np.min: (reductions.min, "a axis out keepdims"),
    np.amin: (reductions.min, "a axis out keepdims"),
    np.argmax: (reductions.argmax, "a axis out keepdims"),
    np.argmin: (reductions.argmin, "a axis out keepdims"),
    np.cumsum: (reductions.cumsum, "a axis dtype out"),
    np.clip: (selection.clip, "a min max out"),
    np.where: (selection.where, "condition x y"),
    np.reshape: (shape.reshape, "a shape order"),
    np.ravel: (Tensor.ravel, "a order"),
    np.transpose: (shape.transpose, "a axes"),
    np.swapaxes: (shape.swapaxes, "a axis1 axis2"),
    np.moveaxis: (shape.moveaxis, "a source destination"),
    np.squeeze: (shape.squeeze, "a axis"),
    np.expand_dims: (shape.expand_dims, "a axis"),
    np.broadcast_to: (shape.broadcast_to, "array shape subok"),
    np.flip: (shape.flip, "m axis"),
    np.tril: (shape.tril, "m k"),
    np.triu: (shape.triu, "m k"),
    np.concatenate: (shape.concatenate, "arrays axis out"),
    np.stack: (shape.stack, "arrays axis out"),
    np.split: (shape.split, "ary indices_or_sections axis"),
    np.take: (indexing.take, "a indices axis out mode"),
    np.zeros_like: (creation.zeros_like, "a dtype order subok shape"),
    np.ones_like: (creation.ones_like, "a dtype order subok shape"),
    np.full_like: (creation.full_like, "a fill_value dtype order subok shape"),
}
if hasattr(np, "astype"):  # from NumPy 2.1 on
    FUNCTIONS[np.astype] = (conversion.astype, "x dtype")

_OTHER_NAMES = {"a_min": "min", "a_max": "max"}
_DEFAULTS = (None, False, "C", "K")  # values of an unsupported argument that may be ignored


def _with_numpy_arguments(operation, order):
    """``operation`` with the arguments of NumPy's function; NotImplemented for an unsupported argument."""
    first, *others = order.split()

    @functools.cache
    def supported():
        return frozenset(inspect.signature(operation).parameters)

    def call(*arguments, **keywords):
        given = dict(zip((first, *others), arguments))
        given.update((_OTHER_NAMES.get(name, name), value) for name, value in keywords.items())
        x = given.pop(first)
        unsupported = [given.pop(name) for name in given.keys() - supported()]
        are_defaults = all(any(value is one for one in _DEFAULTS) for value in unsupported)
        if len(arguments) > 1 + len(others) or not are_defaults:
            return NotImplemented
        return operation(x, **given)

    return call


def _logic(name, reflected):
    def call(x, y):
        return getattr(x, name)(y) if isinstance(x, Tensor) else getattr(y, reflected)(x)

    return call


def _einsum(subscripts, *operands, optimize=False, **others):
    if others or not isinstance(subscripts, str):
        return NotImplemented
    return linear_algebra.einsum(subscripts, *operands)


def _dot(a, b, out=None):
    """``np.dot`` for at most two axes: the matrix product, or the product with a number."""
    if out is not None or np.ndim(b) > 2:
        return NotImplemented
    is_product_with_number = np.ndim(a) == 0 or np.ndim(b) == 0
    return arithmetic.mul(a, b) if is_product_with_number else linear_algebra.matmul(a, b)


for _function, _operation in UFUNCS.items():
    record_as(_function, _operation)
for _function, _names in LOGIC.items():
    record_as(_function, _logic(*_names))
for _function, (_operation, _order) in FUNCTIONS.items():
    record_as(_function, _with_numpy_arguments(_operation, _order))
record_as(np.invert, lambda x: ~x)
record_as(np.positive, lambda x: x)
record_as(np.einsum, _einsum)
record_as(np.dot, _dot)
record_as(np.matrix_transpose, lambda x: x.mT)
record_as(np.shape, lambda a: a.shape)
record_as(np.ndim, lambda a: a.ndim)
record_as(np.size, lambda a, axis=None: a.size if axis is None else a.shape[axis])
