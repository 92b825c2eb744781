"""Addition of two arrays of equal shape, such as the branches of a residual connection, into pooled memory.

Trade-offs: supports neither broadcasting nor mixed dtypes.
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
