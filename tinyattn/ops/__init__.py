"""The operations: one file a family, each operation a rule beside its vector-Jacobian products."""

from . import methods
from .arithmetic import absolute, add, div, mul, neg, power, square, sub
from .conversion import astype
from .reductions import sum
from .shape import broadcast_to, reshape
from .softmax import softmax

abs = absolute
pow = power

__all__ = [
    "abs",
    "absolute",
    "add",
    "astype",
    "broadcast_to",
    "div",
    "mul",
    "neg",
    "pow",
    "power",
    "reshape",
    "softmax",
    "square",
    "sub",
    "sum",
]
