"""Rotary positions without intermediate concatenation.

What it trades: each half of the output is written where it belongs, in the memory layout of the input, so that heads
split from one projection stay where they are. Cotangents of the two tables are left to the rule.
"""

import numpy as np

from ...autograd import register_kernel
from .attention import empty_in_layout_of
from .blocks import is_floating


def forward(x, cosine, sine):
    if x.ndim < 2 or x.size == 0 or x.shape[-1] % 2 or not is_floating(x, cosine, sine):
        return NotImplemented
    if cosine.shape != (x.shape[-2], x.shape[-1] // 2) or sine.shape != cosine.shape:
        return NotImplemented
    return _turned(x, cosine, sine, 1), (cosine, sine)


def _turned(x, cosine, sine, direction):
    half = x.shape[-1] // 2
    out = empty_in_layout_of(x)
    x1, x2, y1, y2 = x[..., :half], x[..., half:], out[..., :half], out[..., half:]
    np.multiply(x1, cosine, out=y1)
    np.multiply(x2, cosine, out=y2)
    if direction > 0:
        y1 -= x2 * sine
        y2 += x1 * sine
    else:
        y1 += x2 * sine
        y2 -= x1 * sine
    return out


def backward(g, residuals):
    return _turned(g, *residuals, -1), None, None


register_kernel("rotary", "cpu", forward, backward)
