"""Log-softmax over the last axis, in blocks of rows.

Trade-offs: only the result is saved; backward computes its exponential again. The rule handles infinite scores.
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
    scratch = np.empty((blocks[0].stop, rows.shape[1]), x.dtype)  # no block is longer
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
        certain = np.flatnonzero(np.vecdot(part, part) > 0.5)  # see exact_rows in softmax.py
        part *= row_sums(g_rows[block])[:, None]
        np.subtract(g_rows[block], part, out=part)
        likeliest = certain, rows[block].take(certain, axis=0).argmax(axis=1)
        part[likeliest] = 0
        part[likeliest] = -row_sums(part.take(certain, axis=0))  # rows sum to 0: see the rule
    return dx.reshape(out.shape)


register_kernel("log_softmax", "cpu", forward, backward)
