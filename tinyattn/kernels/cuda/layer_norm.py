"""Layer normalization over the last axes: one pass over each row, forward and backward.

Trade-offs: a row is kept in the registers of the threads that share it, so that it is read once; rows of more than
2048 numbers are left to the rule. Of the forward three numbers a row are kept, and z is computed again.
"""

from ...autograd import register_kernel
from ...backend import backend_of
from .columns import sum_partials
from .launch import launch
from .rows import affine_fits, as_rows, row_layout, takes_rows, wide


def forward(x, weight, bias, *, axes, eps):
    if not takes_rows(x, axes) or not affine_fits(x, axes, weight, bias):
        return NotImplemented
    rows, restore = as_rows(x, len(axes))
    layout = row_layout(rows)
    if layout is None:
        return NotImplemented
    backend = backend_of(x)
    out = backend.empty(rows.shape, x.dtype)
    statistics = backend.empty((rows.shape[0], 3), wide(x.dtype))
    launch(
        "layer_norm.cu",
        "layer_norm_forward",
        (x.dtype, layout.threads, layout.items),
        layout.blocks,
        layout.block,
        rows,
        weight,
        bias,
        out,
        statistics,
        *rows.shape,
        float(eps),
    )
    return restore(out), (rows, weight, bias, statistics, restore)


def backward(g, residuals):
    rows, weight, bias, statistics, restore = residuals
    g_rows, _ = as_rows(g, like=restore)
    layout = row_layout(rows)
    backend = backend_of(g)
    dx = backend.empty(rows.shape, rows.dtype)
    blocks, partial = layout.blocks, None
    if weight is not None or bias is not None:
        blocks = layout.blocks_of_sums
        partial = backend.empty((blocks, 2, rows.shape[1]), wide(rows.dtype))
    launch(
        "layer_norm.cu",
        "layer_norm_backward",
        (rows.dtype, layout.threads, layout.items),
        blocks,
        layout.block,
        g_rows,
        rows,
        weight,
        statistics,
        dx,
        partial,
        *rows.shape,
    )
    dweight = dbias = None
    if partial is not None:
        sums = sum_partials(partial, rows.dtype)  # (2, width)
        dweight = None if weight is None else sums[0].reshape(weight.shape)
        dbias = None if bias is None else sums[1].reshape(bias.shape)
    return restore(dx), dweight, dbias


register_kernel("layer_norm", "cuda", forward, backward)
