"""Embedding lookup; the gradient is a product with a one-hot matrix for small tables, a segmented sum for large ones.

Trade-offs: ``np.add.at`` adds one element at a time. A product with the one-hot matrix of the ids does more arithmetic,
but with BLAS; beyond a few hundred rows it is faster to sort the ids and sum runs of equal ones.
"""

import numpy as np

from ...autograd import register_kernel
from ...backend.pool import empty, zeros
from .blocks import is_floating

_ONE_HOT_LARGEST_TABLE = 512


def forward(ids, weight, *, padding_idx=None):
    if type(ids) is not np.ndarray or ids.dtype.kind not in "iu" or ids.size == 0:
        return NotImplemented
    if not is_floating(weight) or weight.ndim != 2:
        return NotImplemented
    size = weight.shape[0]
    if size == 0 or int(ids.min()) < 0 or int(ids.max()) >= size:
        return NotImplemented  # the rule raises the error
    ids = ids.astype(np.intp, copy=False)  # NumPy 2.0 does not accept uint64 indices
    out = empty(ids.shape + weight.shape[1:], weight.dtype)
    # The ids are checked above; mode "raise" would copy.
    np.take(weight, ids, axis=0, out=out, mode="clip")
    return out, (ids.reshape(-1), weight.shape, padding_idx)


def backward(g, residuals):
    ids, shape, padding_idx = residuals
    g_rows = g.reshape(-1, shape[1])
    if shape[0] <= _ONE_HOT_LARGEST_TABLE:
        one_hot = np.zeros((ids.size, shape[0]), g.dtype)
        one_hot[np.arange(ids.size), ids] = 1
        dweight = one_hot.T @ g_rows
    else:
        dweight = zeros(shape, g.dtype)
        order = np.argsort(ids, kind="stable")
        sorted_ids = ids[order]
        starts = np.flatnonzero(np.diff(sorted_ids, prepend=sorted_ids[0] - 1))
        dweight[sorted_ids[starts]] = np.add.reduceat(g_rows[order], starts, axis=0)
    if padding_idx is not None:
        dweight[padding_idx] = 0
    return None, dweight


register_kernel("embedding", "cpu", forward, backward)
