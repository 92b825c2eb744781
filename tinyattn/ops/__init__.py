"""The operations: one file a family, each operation a rule beside its vector-Jacobian products."""

from . import methods
from .activations import erf, gelu, relu, sigmoid, silu
from .arithmetic import absolute, add, div, mul, neg, power, square, sub
from .conversion import astype
from .dropout import dropout
from .embedding import embedding
from .linear import linear
from .losses import cross_entropy, mse_loss, nll_loss
from .normalisation import layer_norm, rms_norm
from .reductions import sum
from .rotary import rotary, rotary_tables
from .shape import broadcast_to, reshape
from .softmax import log_softmax, logsumexp, softmax

abs = absolute
pow = power

__all__ = [
    "abs",
    "absolute",
    "add",
    "astype",
    "broadcast_to",
    "cross_entropy",
    "div",
    "dropout",
    "embedding",
    "erf",
    "gelu",
    "layer_norm",
    "linear",
    "log_softmax",
    "logsumexp",
    "mse_loss",
    "mul",
    "neg",
    "nll_loss",
    "pow",
    "power",
    "relu",
    "reshape",
    "rms_norm",
    "rotary",
    "rotary_tables",
    "sigmoid",
    "silu",
    "softmax",
    "square",
    "sub",
    "sum",
]
