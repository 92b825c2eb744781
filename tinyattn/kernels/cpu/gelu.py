"""GELU in its tanh form, block by block, with its derivative computed while the block is in cache.

What it trades: the derivative, one array of the size of x, is kept for backward, which then is a single product; the
alternative, computing tanh a second time, costs more than the memory does. With s = sigmoid(2 u) = (1 + tanh u) / 2 and
u = c (x + a x^3),
    y = x s,    y' = s (1 + (1 - s) x (2c + 6ca x^2)).
"""

import math

import numpy as np

from ...autograd import register_kernel
from ...backend.pool import empty
from .blocks import is_floating

_C = math.sqrt(2.0 / math.pi)
_A = 0.044715
_BLOCK_ELEMENTS = 1 << 14


def forward(x, *, approximate="none"):
    if approximate != "tanh" or not is_floating(x) or not x.flags.c_contiguous:
        return NotImplemented
    out = empty(x.shape, x.dtype)
    slope = empty(x.shape, x.dtype)
    flat_x, flat_out, flat_slope = x.reshape(-1), out.reshape(-1), slope.reshape(-1)
    scratch = np.empty((2, min(_BLOCK_ELEMENTS, x.size)), x.dtype)
    for start in range(0, x.size, _BLOCK_ELEMENTS):
        block = slice(start, start + _BLOCK_ELEMENTS)
        gelu_block(flat_x[block], flat_out[block], flat_slope[block], scratch)
    return out, slope


def gelu_block(x, out, slope, scratch):
    """Write gelu(x) to ``out`` and its derivative to ``slope``; all (elements,), and ``scratch`` (2, at least that)."""
    sigma, complement = scratch[0, : x.shape[0]], scratch[1, : x.shape[0]]
    np.multiply(x, x, out=slope)
    np.multiply(slope, _C * _A, out=sigma)
    sigma += _C
    sigma *= x
    np.tanh(sigma, out=sigma)
    sigma *= 0.5
    np.subtract(0.5, sigma, out=complement)
    sigma += 0.5
    np.multiply(x, sigma, out=out)
    slope *= 6.0 * _C * _A
    slope += 2.0 * _C
    slope *= out
    slope *= complement
    slope += sigma


def backward(g, slope):
    dx = empty(slope.shape, slope.dtype)
    np.multiply(g, slope, out=dx)
    return dx


register_kernel("gelu", "cpu", forward, backward)
