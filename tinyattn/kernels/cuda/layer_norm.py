"""Layer normalization over the last axes: one pass over each row, forward and backward.

Trade-offs: a row is kept in the registers of the threads that share it, so that it is read once; the rule computes rows
of more than 2048 numbers. Forward saves three numbers per row, and backward computes z again.
"""

from ...autograd import register_kernel
from ...backend import backend_of
from .columns import PartialSums
from .launch import launch
from .residual import NO_BRANCH, NO_DROPOUT
from .rows import affine_fits, as_rows, row_layout, takes_rows, wide

SUMS = ("weight", "bias")  # partial sums that backward leaves in adjacent columns, in this order


def forward(x, weight, bias, *, axes, eps):
    if not takes_rows(x, axes) or not affine_fits(x, axes, weight, bias):
        return NotImplemented
    rows, restore = as_rows(x, len(axes))
    if row_layout(rows) is None:
        return NotImplemented
    out, statistics, _ = normalize(rows, weight, bias, eps)
    return restore(out), (rows, weight, bias, statistics, restore)


def backward(g, residuals):
    rows, weight, bias, statistics, restore = residuals
    g_rows, _ = as_rows(g, like=restore)
    has_sums = weight is not None or bias is not None
    sums = PartialSums(rows, rows.shape[0], dict.fromkeys(SUMS, rows.shape[1]) if has_sums else {})
    dx, _ = normalize_backward(g_rows, rows, weight, statistics, sums, "weight")
    totals = sums.finish()
    dweight = None if weight is None else totals["weight"].reshape(weight.shape)
    dbias = None if bias is None else totals["bias"].reshape(bias.shape)
    return restore(dx), dweight, dbias


def normalize(rows, weight, bias, eps, branch=NO_BRANCH, base=None, base_bias=None):
    """Normalize each row of a contiguous matrix, or of the sum of it and a branch.

    Args:
        base: array that gets the rows that were normalized, plus ``base_bias``, or None.

    Returns:
        The result, the statistics that backward needs, and the rows that were normalized.
    """
    layout = row_layout(rows)
    backend = backend_of(rows)
    out = backend.empty(rows.shape, rows.dtype)
    statistics = backend.empty((rows.shape[0], 3), wide(rows.dtype))
    total = None if branch.product is None else backend.empty(rows.shape, rows.dtype)
    launch(
        "layer_norm.cu",
        "layer_norm_forward",
        (rows.dtype, layout.threads, layout.items),
        layout.blocks,
        layout.block,
        rows,
        branch.product,
        branch.bias,
        total,
        weight,
        bias,
        base_bias,
        base,
        out,
        statistics,
        *rows.shape,
        float(eps),
        *branch.dropout,
    )
    return out, statistics, rows if total is None else total


def normalize_backward(
    g, rows, weight, statistics, sums, first, residual=None, dropout=NO_DROPOUT, branch_bias=False
):
    """The cotangent of the rows, and that of the branch that was added to them.

    Args:
        g: the cotangent of the result, (rows, width), or a stack of cotangents that add up to it.
        sums: ``PartialSums`` to which the sums for weight, bias and the bias of the branch go.
        first: the name of the first of these sums, or None if there are none.
        residual: the cotangent that reaches the rows past the norm, or None.
        dropout: mask of the branch.
        branch_bias: whether the sum for the bias of the branch is needed.
    """
    layout = row_layout(rows)
    backend = backend_of(g)
    dx = backend.empty(rows.shape, rows.dtype)
    dbranch = None if dropout is NO_DROPOUT else backend.empty(rows.shape, rows.dtype)
    partial = sums.columns(first)
    launch(
        "layer_norm.cu",
        "layer_norm_backward",
        (rows.dtype, layout.threads, layout.items),
        layout.blocks if partial is None else sums.parts,
        layout.block,
        g,
        rows,
        weight,
        statistics,
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


register_kernel("layer_norm", "cuda", forward, backward)
