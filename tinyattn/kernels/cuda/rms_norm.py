"""Root-mean-square normalization over the last axes: one pass over each row, forward and backward.

Trade-offs: as for ``layer_norm``. Queries and keys, which are views of a projection, are normalized where they lie.
"""

from ...autograd import register_kernel
from ...backend import backend_of
from .columns import sum_partials
from .launch import launch
from .rows import affine_fits, as_rows, row_layout, takes_rows, wide


def forward(x, weight, *, axes, eps):
    if not takes_rows(x, axes) or not affine_fits(x, axes, weight):
        return NotImplemented
    rows, restore = as_rows(x, len(axes))
    layout = row_layout(rows)
    if layout is None:
        return NotImplemented
    backend = backend_of(x)
    out = backend.empty(rows.shape, x.dtype)
    inverse_root = backend.empty((rows.shape[0],), wide(x.dtype))
    launch(
        "rms_norm.cu",
        "rms_norm_forward",
        (x.dtype, layout.threads, layout.items),
        layout.blocks,
        layout.block,
        rows,
        weight,
        out,
        inverse_root,
        *rows.shape,
        float(eps),
    )
    return restore(out), (rows, weight, inverse_root, restore)


def backward(g, residuals):
    rows, weight, inverse_root, restore = residuals
    g_rows, _ = as_rows(g, like=restore)
    layout = row_layout(rows)
    backend = backend_of(g)
    dx = backend.empty(rows.shape, rows.dtype)
    blocks, partial = layout.blocks, None
    if weight is not None:
        blocks = layout.blocks_of_sums
        partial = backend.empty((blocks, rows.shape[1]), wide(rows.dtype))
    launch(
        "rms_norm.cu",
        "rms_norm_backward",
        (rows.dtype, layout.threads, layout.items),
        blocks,
        layout.block,
        g_rows,
        rows,
        weight,
        inverse_root,
        dx,
        partial,
        *rows.shape,
    )
    dweight = None
    if weight is not None:
        dweight = sum_partials(partial, rows.dtype).reshape(weight.shape)
    return restore(dx), dweight


register_kernel("rms_norm", "cuda", forward, backward)
