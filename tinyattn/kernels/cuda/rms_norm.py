"""Root-mean-square normalization over the last axes: one pass over each row, forward and backward.

Trade-offs: as for ``layer_norm``. Queries and keys, which are views of a projection, are normalized without a copy.
"""

from ...autograd import register_kernel
from ...backend import backend_of
from .columns import PartialSums
from .launch import launch
from .residual import NO_BRANCH, NO_DROPOUT
from .rows import affine_fits, as_rows, row_layout, takes_rows, wide

SUMS = ("weight",)  # of the partial sums that backward leaves


def forward(x, weight, *, axes, eps):
    if not takes_rows(x, axes) or not affine_fits(x, axes, weight):
        return NotImplemented
    rows, restore = as_rows(x, len(axes))
    if row_layout(rows) is None:
        return NotImplemented
    out, inverse_root, _ = normalize(rows, weight, None, eps)
    return restore(out), (rows, weight, inverse_root, restore)


def backward(g, residuals):
    rows, weight, inverse_root, restore = residuals
    g_rows, _ = as_rows(g, like=restore)
    widths = {} if weight is None else dict.fromkeys(SUMS, rows.shape[1])
    sums = PartialSums(rows, rows.shape[0], widths)
    dx, _ = normalize_backward(g_rows, rows, weight, inverse_root, sums, "weight")
    totals = sums.finish()
    return restore(dx), None if weight is None else totals["weight"].reshape(weight.shape)


def normalize(rows, weight, _bias, eps, branch=NO_BRANCH, base=None, base_bias=None):
    """As ``normalize`` of ``layer_norm.py``, without a bias."""
    layout = row_layout(rows)
    backend = backend_of(rows)
    out = backend.empty(rows.shape, rows.dtype)
    inverse_root = backend.empty((rows.shape[0],), wide(rows.dtype))
    total = None if branch.product is None else backend.empty(rows.shape, rows.dtype)
    launch(
        "rms_norm.cu",
        "rms_norm_forward",
        (rows.dtype, layout.threads, layout.items),
        layout.blocks,
        layout.block,
        rows,
        branch.product,
        branch.bias,
        total,
        weight,
        base_bias,
        base,
        out,
        inverse_root,
        *rows.shape,
        float(eps),
        *branch.dropout,
    )
    return out, inverse_root, rows if total is None else total


def normalize_backward(
    g, rows, weight, inverse_root, sums, first, residual=None, dropout=NO_DROPOUT, branch_bias=False
):
    """As ``normalize_backward`` of ``layer_norm.py``, with sums for weight and the bias of the branch."""
    layout = row_layout(rows)
    backend = backend_of(g)
    dx = backend.empty(rows.shape, rows.dtype)
    dbranch = None if dropout is NO_DROPOUT else backend.empty(rows.shape, rows.dtype)
    partial = sums.columns(first)
    launch(
        "rms_norm.cu",
        "rms_norm_backward",
        (rows.dtype, layout.threads, layout.items),
        layout.blocks if partial is None else sums.parts,
        layout.block,
        g,
        rows,
        weight,
        inverse_root,
        residual,
        dx,
        dbranch,
        partial,
        *rows.shape,
        g.size // rows.size,
        sums.stride,
        branch_bias,
        *dropout,
    )
    return dx, dx if dbranch is None else dbranch


register_kernel("rms_norm", "cuda", forward, backward)
