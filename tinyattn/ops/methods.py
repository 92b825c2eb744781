"""The operators and methods of Tensor.

The engine is a layer below the operations and cannot import them, so they are attached to the class here. There are no
in-place operators: Python evaluates ``x += y`` as ``x = x + y``, which makes a new tensor.
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


def _named(module, names):
    return {name: getattr(module, name) for name in names.split()}


METHODS = {
    "__neg__": arithmetic.neg,
    "__abs__": arithmetic.absolute,
    "__getitem__": indexing.getitem,
    "abs": arithmetic.absolute,
    "square": arithmetic.square,
    "matmul": linear_algebra.matmul,
    "take": indexing.take,
    **_named(conversion, "astype to"),
    **_named(exponential, "exp log log1p expm1 sqrt rsqrt"),
    **_named(trigonometric, "sin cos tanh"),
    **_named(selection, "clip masked_fill"),
    **_named(reductions, "sum mean var std prod max min argmax argmin cumsum"),
    **_named(shape, "broadcast_to swapaxes moveaxis squeeze expand_dims flip tril triu split"),
    **_named(softmax, "softmax log_softmax logsumexp"),
    **_named(activations, "relu sigmoid erf erfc"),
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
    """This tensor with a new shape, given as a tuple or as separate lengths: see ``reshape``."""
    return shape.reshape(self, _tuple_or_varargs(shape_or_lengths))


def _transpose(self, *axes):
    """This tensor with permuted axes, given as a tuple or separately; reversed if there are none."""
    axes = _tuple_or_varargs(axes) if axes and axes[0] is not None else None
    return shape.transpose(self, axes)


def _tuple_or_varargs(arguments):
    is_tuple = len(arguments) == 1 and isinstance(arguments[0], (tuple, list))
    return tuple(arguments[0]) if is_tuple else arguments


def _flatten(self):
    """This tensor as a vector of all elements."""
    return shape.reshape(self, (-1,))


def _matrix_transpose(self):
    """This tensor with its last two axes swapped."""
    if self.ndim < 2:
        raise ValueError(f".mT needs matrices in the last two axes, got shape {self.shape}")
    return shape.swapaxes(self, -1, -2)


def _cpu(self):
    """This tensor in host memory."""
    return conversion.to(self, "cpu")


def _cuda(self, number=0):
    """This tensor on GPU ``number``."""
    return conversion.to(self, f"cuda:{number}" if number else "cuda")


def _positive(self):
    return self


def _names(self):
    """The names that ``dir`` lists, without PyTorch's names, which exist only to raise a helpful error."""
    return sorted(set(object.__dir__(self)) - pytorch_names.OF_TENSORS.keys())


def _reject_assignment(self, index, value):
    raise TypeError(
        "a tensor does not support item assignment, as a graph may need the old values: compute a new tensor with "
        "where(mask, value, x), or assign to x.data[...] outside any graph"
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
Tensor.__setitem__ = _reject_assignment
Tensor.__dir__ = _names
for _name in pytorch_names.OF_TENSORS:
    setattr(Tensor, _name, pytorch_names.NamedOtherwise(_name))
