"""The operations, one module per family: each is a rule followed by its vector-Jacobian products."""

from . import methods, numpy_functions
from .activations import erf, erfc, gelu, relu, relu_squared, sigmoid, silu
from .arithmetic import absolute, add, div, mul, neg, power, square, sub
from .conversion import astype, to_device
from .creation import arange, eye, full, full_like, ones, ones_like, rand, randn, zeros, zeros_like
from .dropout import dropout
from .embedding import embedding
from .exponential import exp, expm1, log, log1p, rsqrt, sqrt
from .heads import join_heads, split_heads
from .indexing import take
from .linear import linear
from .linear_algebra import einsum, matmul
from .losses import binary_cross_entropy_with_logits, cross_entropy, mse_loss, nll_loss
from .normalization import layer_norm, rms_norm
from .reductions import argmax, argmin, cumsum, max, mean, min, prod, std, sum, var
from .rotary import rotary, rotary_tables
from .selection import clip, masked_fill, maximum, minimum, where
from .shape import (
    broadcast_to,
    concatenate,
    expand_dims,
    flip,
    moveaxis,
    reshape,
    split,
    squeeze,
    stack,
    swapaxes,
    transpose,
    tril,
    triu,
)
from .softmax import log_softmax, logsumexp, softmax
from .trigonometric import cos, sin, tanh

abs = absolute
pow = power

__all__ = sorted(
    name for name, value in globals().items() if callable(value) and not name.startswith("_")
)
