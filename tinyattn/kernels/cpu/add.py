"""The sum of two arrays of one shape, such as the two branches of a residual connection, into pooled memory.

What it trades: nothing but generality; broadcasting and mixed types are left to the rule.
"""

import numpy as np

from ...autograd import register_kernel
from ...backend.pool import SMALLEST_POOLED, empty
from .blocks import is_floating


def forward(x, y):
    if type(x) is not np.ndarray or type(y) is not np.ndarray or x.shape != y.shape:
        return NotImplemented
    if x.nbytes < SMALLEST_POOLED or not is_floating(x, y):
        return NotImplemented
    return np.add(x, y, out=empty(x.shape, x.dtype)), None


def backward(g, _residuals):
    return g, g


register_kernel("add", "cpu", forward, backward)
