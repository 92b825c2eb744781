"""The logarithm of softmax over the last axis, row block by row block.

What it trades: only the result is kept; backward takes its exponential again. Rows with infinite scores are left to
the rule, which says what they mean.
"""

import numpy as np

from ...autograd import register_kernel
from ...backend.pool import empty
from .blocks import as_rows, row_blocks, row_sums
from .softmax import over_last_axis


def forward(x, *, axis=-1):
    if not over_last_axis(x, axis):
        return NotImplemented
    rows = as_rows(x)
    out = empty(rows.shape, x.dtype)
    blocks = row_blocks(rows.shape[0], rows.shape[1] * x.itemsize)
    scratch = np.empty((max(block.stop - block.start for block in blocks), rows.shape[1]), x.dtype)
    for block in blocks:
        part = out[block]
        highest = rows[block].max(axis=1)
        if not np.isfinite(highest).all():
            return NotImplemented
        np.subtract(rows[block], highest[:, None], out=part)
        exponentials = np.exp(part, out=scratch[: part.shape[0]])
        part -= np.log(row_sums(exponentials))[:, None]
    out = out.reshape(x.shape)
    return out, out


def backward(g, out):
    rows, g_rows = as_rows(out), as_rows(g)
    dx = empty(rows.shape, rows.dtype)
    for block in row_blocks(rows.shape[0], rows.shape[1] * rows.itemsize):
        part = dx[block]
        np.exp(rows[block], out=part)
        sure = np.flatnonzero(np.vecdot(part, part) > 0.5)  # see the kernel of softmax
        part *= row_sums(g_rows[block])[:, None]
        np.subtract(g_rows[block], part, out=part)
        likeliest = sure, rows[block].take(sure, axis=0).argmax(axis=1)
        part[likeliest] = 0
        part[likeliest] = -row_sums(part.take(sure, axis=0))  # a row sums to 0: see the rule
    return dx.reshape(out.shape)


register_kernel("log_softmax", "cpu", forward, backward)
