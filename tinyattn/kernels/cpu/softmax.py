"""Softmax over the last axis, row block by row block.

What it trades: the result is computed in one array, in place, and kept for backward. Rows with infinite scores are
left to the rule, which says what they mean.
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
    """Whether the kernel is written for ``x`` and ``axis``."""
    return x.ndim > 0 and x.size > 0 and axis in (-1, x.ndim - 1) and is_floating(x)


def backward(g, out):
    rows, g_rows = as_rows(out), as_rows(g)
    dx = empty(rows.shape, rows.dtype)
    for block in row_blocks(rows.shape[0], rows.shape[1] * rows.itemsize):
        part = dx[block]
        along = np.vecdot(g_rows[block], rows[block])
        np.subtract(g_rows[block], along[:, None], out=part)
        sure, exact = sure_rows(g_rows[block], rows[block])
        part[sure] = exact
        part *= rows[block]
    return dx.reshape(out.shape)


def sure_rows(g, probabilities):
    """The numbers of the rows that are sure of one class, and for them ``g`` less its average, exact: see the rule.

    The largest of numbers that add up to 1 is at least the sum of their squares, which BLAS takes in one pass: where
    that is above 1/2 so is one probability, and every row with one above 0.71 is found.
    """
    sure = np.flatnonzero(np.vecdot(probabilities, probabilities) > 0.5)
    probabilities = probabilities.take(sure, axis=0)
    g = g.take(sure, axis=0)
    g -= g[np.arange(len(sure)), probabilities.argmax(axis=1), None]
    g -= np.vecdot(g, probabilities)[:, None]
    return sure, g


register_kernel("softmax", "cpu", forward, backward)
