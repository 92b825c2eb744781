"""gelu(x W + b) over blocks of tokens: the block between the product and the activation never leaves the cache.

What it trades: of the hidden layer only the activation and its derivative are written out, not the input of the
activation. Backward multiplies by the kept derivative and is then that of a linear layer.
"""

import numpy as np

from ...autograd import register_kernel
from ...backend.pool import empty
from . import linear
from .blocks import as_rows, row_blocks
from .gelu import gelu_block

_HIDDEN_BYTES = 3 << 16  # of one block of the hidden layer; its activation and derivative come beside it


def forward(x, weight, bias, *, approximate="none"):
    if approximate != "tanh" or not linear.accepts(x, weight, bias):
        return NotImplemented
    rows = as_rows(x)
    tokens, width = rows.shape[0], weight.shape[1]
    out = empty((tokens, width), x.dtype)
    slope = empty((tokens, width), x.dtype)
    blocks = row_blocks(tokens, width * x.itemsize, _HIDDEN_BYTES)
    longest = max(block.stop - block.start for block in blocks)
    hidden = empty((longest, width), x.dtype)
    scratch = empty((2, longest * width), x.dtype)
    for block in blocks:
        inner = hidden[: block.stop - block.start]
        np.matmul(rows[block], weight, out=inner)
        if bias is not None:
            inner += bias
        gelu_block(inner.reshape(-1), out[block].reshape(-1), slope[block].reshape(-1), scratch)
    return out.reshape(x.shape[:-1] + (width,)), (x, weight, bias is not None, slope)


def backward(g, residuals):
    x, weight, has_bias, slope = residuals
    g_inner = empty(slope.shape, slope.dtype)
    np.multiply(as_rows(g), slope, out=g_inner)
    return linear.backward(g_inner, (x, weight, has_bias))


register_kernel("linear_gelu", "cpu", forward, backward)
