"""Softmax over the last axis, in blocks of rows.

Trade-offs: the result is computed in-place in one array, and saved for backward. The rule handles infinite scores.
"""

import numpy as np

from ...autograd import register_kernel
from ...backend.pool import empty
from .blocks import as_rows, is_floating, row_blocks, row_sums


def forward(x, *, axis=-1):
    if not over_last_axis(x, axis):
        return NotImplemented
    rows = as_rows(x)
    out = empty(rows.shape, x.dtype)
    for block in row_blocks(rows.shape[0], rows.shape[1] * x.itemsize):
        part = out[block]
        highest = rows[block].max(axis=1)
        if not np.isfinite(highest).all():
            return NotImplemented
        np.subtract(rows[block], highest[:, None], out=part)
        np.exp(part, out=part)
        part *= np.reciprocal(row_sums(part))[:, None]
    out = out.reshape(x.shape)
    return out, out


def over_last_axis(x, axis):
    """Whether the kernels of softmax and log-softmax support ``x`` and ``axis``."""
    return x.ndim > 0 and x.size > 0 and axis in (-1, x.ndim - 1) and is_floating(x)


def backward(g, out):
    rows, g_rows = as_rows(out), as_rows(g)
    dx = empty(rows.shape, rows.dtype)
    for block in row_blocks(rows.shape[0], rows.shape[1] * rows.itemsize):
        part = dx[block]
        mean = np.vecdot(g_rows[block], rows[block])
        np.subtract(g_rows[block], mean[:, None], out=part)
        certain, exact = exact_rows(g_rows[block], rows[block])
        part[certain] = exact
        part *= rows[block]
    return dx.reshape(out.shape)


def exact_rows(g, probabilities):
    """The indices of rows with a probability close to 1, and for these ``g`` minus its mean, computed as in the rule.

    The largest of several numbers that sum to 1 is at least the sum of their squares, which BLAS computes in one pass:
    if that exceeds 1/2, so does one probability, and all rows with a probability above 0.71 are found.
    """
    certain = np.flatnonzero(np.vecdot(probabilities, probabilities) > 0.5)
    probabilities = probabilities.take(certain, axis=0)
    g = g.take(certain, axis=0)
    g -= g[np.arange(len(certain)), probabilities.argmax(axis=1), None]
    g -= np.vecdot(g, probabilities)[:, None]
    return certain, g


register_kernel("softmax", "cpu", forward, backward)
