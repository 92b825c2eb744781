"""The operators and methods of Tensor, all in one table.

The engine's floor lies below the operations, so that it cannot name them; here they are attached.
"""

from ..autograd import Tensor
from . import activations, arithmetic, conversion, reductions, shape, softmax

OPERATORS = {
    "add": arithmetic.add,
    "sub": arithmetic.sub,
    "mul": arithmetic.mul,
    "truediv": arithmetic.div,
    "pow": arithmetic.power,
}

METHODS = {
    "__neg__": arithmetic.neg,
    "__abs__": arithmetic.absolute,
    "abs": arithmetic.absolute,
    "square": arithmetic.square,
    "astype": conversion.astype,
    "sum": reductions.sum,
    "broadcast_to": shape.broadcast_to,
    "softmax": softmax.softmax,
    "log_softmax": softmax.log_softmax,
    "logsumexp": softmax.logsumexp,
    "relu": activations.relu,
    "sigmoid": activations.sigmoid,
    "erf": activations.erf,
}


def _operator(operation):
    def operator(self, other):
        return operation(self, other)

    return operator


def _reflected_operator(operation):
    def operator(self, other):
        return operation(other, self)

    return operator


def _method(operation):
    def method(self, *args, **kwargs):
        return operation(self, *args, **kwargs)

    method.__doc__ = operation.__doc__
    return method


def _reshape(self, *shape_or_lengths):
    """This tensor under another shape, given as a tuple or as separate lengths: see ``reshape``."""
    is_shape = len(shape_or_lengths) == 1 and isinstance(shape_or_lengths[0], (tuple, list))
    return shape.reshape(self, tuple(shape_or_lengths[0]) if is_shape else shape_or_lengths)


for _name, _operation in OPERATORS.items():
    setattr(Tensor, f"__{_name}__", _operator(_operation))
    setattr(Tensor, f"__r{_name}__", _reflected_operator(_operation))
for _name, _operation in METHODS.items():
    setattr(Tensor, _name, _method(_operation))
Tensor.reshape = _reshape
