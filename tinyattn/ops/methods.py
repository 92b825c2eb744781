"""The operators and methods of Tensor, all in one table.

The engine's floor lies below the operations, so that it cannot name them; here they are attached. There are no
operators in place: Python turns ``x += y`` into ``x = x + y``, which makes a new tensor and leaves graphs as they are.
"""

import functools

from ..autograd import Tensor, pytorch_names
from . import (
    activations,
    arithmetic,
    conversion,
    exponential,
    indexing,
    linear_algebra,
    reductions,
    selection,
    shape,
    softmax,
    trigonometric,
)

OPERATORS = {
    "add": arithmetic.add,
    "sub": arithmetic.sub,
    "mul": arithmetic.mul,
    "truediv": arithmetic.div,
    "pow": arithmetic.power,
    "matmul": linear_algebra.matmul,
}

METHODS = {
    "__neg__": arithmetic.neg,
    "__abs__": arithmetic.absolute,
    "__getitem__": indexing.getitem,
    "abs": arithmetic.absolute,
    "square": arithmetic.square,
    "exp": exponential.exp,
    "log": exponential.log,
    "log1p": exponential.log1p,
    "expm1": exponential.expm1,
    "sqrt": exponential.sqrt,
    "rsqrt": exponential.rsqrt,
    "sin": trigonometric.sin,
    "cos": trigonometric.cos,
    "tanh": trigonometric.tanh,
    "clip": selection.clip,
    "masked_fill": selection.masked_fill,
    "sum": reductions.sum,
    "mean": reductions.mean,
    "var": reductions.var,
    "std": reductions.std,
    "prod": reductions.prod,
    "max": reductions.max,
    "min": reductions.min,
    "argmax": reductions.argmax,
    "argmin": reductions.argmin,
    "cumsum": reductions.cumsum,
    "matmul": linear_algebra.matmul,
    "broadcast_to": shape.broadcast_to,
    "swapaxes": shape.swapaxes,
    "moveaxis": shape.moveaxis,
    "squeeze": shape.squeeze,
    "expand_dims": shape.expand_dims,
    "flip": shape.flip,
    "tril": shape.tril,
    "triu": shape.triu,
    "split": shape.split,
    "take": indexing.take,
    "astype": conversion.astype,
    "to": conversion.to,
    "softmax": softmax.softmax,
    "log_softmax": softmax.log_softmax,
    "logsumexp": softmax.logsumexp,
    "relu": activations.relu,
    "sigmoid": activations.sigmoid,
    "erf": activations.erf,
    "erfc": activations.erfc,
}


def _operator(operation):
    def operator(self, other):
        return operation(self, other) if _is_operand(other) else NotImplemented

    return operator


def _reflected_operator(operation):
    def operator(self, other):
        return operation(other, self) if _is_operand(other) else NotImplemented

    return operator


def _is_operand(value):
    return value is not None and not isinstance(value, (str, dict, set))


def _method(operation):
    @functools.wraps(operation, updated=())
    def method(self, *args, **kwargs):
        return operation(self, *args, **kwargs)

    return method


def _reshape(self, *shape_or_lengths):
    """This tensor under another shape, given as a tuple or as separate lengths: see ``reshape``."""
    return shape.reshape(self, _one_or_many(shape_or_lengths))


def _transpose(self, *axes):
    """This tensor with its axes in another order, given as a tuple or one by one; without any, reversed."""
    axes = _one_or_many(axes) if axes and axes[0] is not None else None
    return shape.transpose(self, axes)


def _one_or_many(arguments):
    is_one = len(arguments) == 1 and isinstance(arguments[0], (tuple, list))
    return tuple(arguments[0]) if is_one else arguments


def _flatten(self):
    """All elements in one row."""
    return shape.reshape(self, (-1,))


def _matrix_transpose(self):
    """The matrices in the last two axes transposed."""
    if self.ndim < 2:
        raise ValueError(f".mT needs matrices in the last two axes, got shape {self.shape}")
    return shape.swapaxes(self, -1, -2)


def _cpu(self):
    """This tensor in the host's memory."""
    return conversion.to(self, "cpu")


def _cuda(self, number=0):
    """This tensor on a GPU, counted from 0."""
    return conversion.to(self, f"cuda:{number}" if number else "cuda")


def _positive(self):
    return self


def _names(self):
    """What ``dir`` lists: not what is there only to say what it is called here."""
    return sorted(set(object.__dir__(self)) - pytorch_names.OF_TENSORS.keys())


def _refuse_assignment(self, index, value):
    raise TypeError(
        "a tensor's elements are not assigned to, a graph may need the old ones: compute a new tensor with "
        "where(mask, value, x), or write to x.data[...] outside any graph"
    )


for _name, _operation in OPERATORS.items():
    setattr(Tensor, f"__{_name}__", _operator(_operation))
    setattr(Tensor, f"__r{_name}__", _reflected_operator(_operation))
for _name, _operation in METHODS.items():
    setattr(Tensor, _name, _method(_operation))
Tensor.reshape = _reshape
Tensor.transpose = _transpose
Tensor.flatten = Tensor.ravel = _flatten
Tensor.T = property(lambda self: shape.transpose(self), doc="All axes in reverse order.")
Tensor.mT = property(_matrix_transpose, doc=_matrix_transpose.__doc__)
Tensor.cpu = _cpu
Tensor.cuda = _cuda
Tensor.__pos__ = _positive
Tensor.__setitem__ = _refuse_assignment
Tensor.__dir__ = _names
for _name in pytorch_names.OF_TENSORS:
    setattr(Tensor, _name, pytorch_names.NamedOtherwise(_name))
