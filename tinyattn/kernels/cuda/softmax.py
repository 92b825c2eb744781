"""Softmax over the last axis, masked scores included, and its backward: one pass over each row.

Trade-offs: a row is kept in the registers of the threads that share it; the rule computes rows of more than 2048
scores. The result is saved for backward.
"""

from ...autograd import register_kernel
from ...backend import backend_of
from .launch import launch
from .rows import as_rows, row_layout, takes_rows


def forward(x, *, axis=-1):
    if not isinstance(axis, int) or not takes_rows(x, (axis,)):
        return NotImplemented
    rows, restore = as_rows(x)
    layout = row_layout(rows)
    if layout is None:
        return NotImplemented
    out = backend_of(x).empty(rows.shape, x.dtype)
    _launch("softmax_forward", layout, rows, out)
    return restore(out), (out, restore)


def backward(g, residuals):
    out, restore = residuals
    g_rows, _ = as_rows(g, like=restore)
    dx = backend_of(g).empty(out.shape, out.dtype)
    _launch("softmax_backward", row_layout(out), g_rows, out, dx)
    return restore(dx)


def _launch(name, layout, *matrices):
    template = matrices[0].dtype, layout.threads, layout.items
    launch("softmax.cu", name, template, layout.blocks, layout.block, *matrices, *matrices[0].shape)


register_kernel("softmax", "cuda", forward, backward)
