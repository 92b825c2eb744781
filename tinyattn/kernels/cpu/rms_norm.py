"""Root-mean-square normalization over the last axes, in blocks of rows.

Trade-offs: backward reads x itself, or without a weight the output, so that no other array is saved. A factor per row
and a weight per column multiply a block in one pass, as their outer product, which BLAS computes in less time than
NumPy needs for either. Heads that are views of a projection are normalized without a copy.
"""

import numpy as np

from ...autograd import register_kernel
from ...backend.pool import empty
from .blocks import heads_swapped, ones, row_blocks, row_width


def forward(x, weight, *, axes, eps):
    width = row_width(x, axes, weight)
    if width is None:
        return NotImplemented
    swapped = len(axes) == 1 and heads_swapped(x)
    if swapped:
        x = x.swapaxes(-3, -2)
    rows = x.reshape(-1, width)
    out = empty(rows.shape, x.dtype)
    inverse_root = np.empty(rows.shape[0], x.dtype)
    flat_weight = ones(width, x.dtype) if weight is None else weight.reshape(-1)
    for block in row_blocks(rows.shape[0], width * x.itemsize):
        row, out_block, scale = rows[block], out[block], inverse_root[block]
        np.vecdot(row, row, out=scale)
        scale /= width
        scale += eps
        np.sqrt(scale, out=scale)
        np.reciprocal(scale, out=scale)
        np.dot(scale[:, None], flat_weight[None], out=out_block)
        out_block *= row
    if not inverse_root.all():
        return NotImplemented  # squares overflowed: the rule scales rows first
    kept = out if weight is None else rows
    out = out.reshape(x.shape)
    residuals = kept, inverse_root, weight, x.shape, swapped
    return (out.swapaxes(-3, -2) if swapped else out), residuals


def backward(g, residuals):
    kept, inverse_root, weight, shape, swapped = residuals
    width = kept.shape[1]
    if swapped:
        g = g.swapaxes(-3, -2)
    g_rows = g.reshape(-1, width)
    flat_weight = None if weight is None else weight.reshape(-1)
    dx = empty(kept.shape, kept.dtype)
    dweight = None if weight is None else np.zeros(width, kept.dtype)
    for block in row_blocks(kept.shape[0], width * kept.itemsize):
        g_block, kept_block, dx_block = g_rows[block], kept[block], dx[block]
        scale = inverse_root[block]
        # dx = (p - x^ mean(p x^)) / rms  with  p = g w
        if weight is None:
            along = np.vecdot(g_block, kept_block)
            along /= width
            np.multiply(kept_block, along[:, None], out=dx_block)
            np.subtract(g_block, dx_block, out=dx_block)
            dx_block *= scale[:, None]
        else:
            product = np.multiply(g_block, kept_block, out=empty(g_block.shape, g.dtype))
            dweight += scale @ product
            along = product @ flat_weight
            along /= width
            along *= scale  # x^ = x * scale, so this is mean(p x^)
            along *= scale
            along *= scale
            np.dot(scale[:, None], flat_weight[None], out=dx_block)
            dx_block *= g_block
            dx_block -= np.multiply(kept_block, along[:, None], out=product)
    dx = dx.reshape(shape)
    dweight = None if weight is None else dweight.reshape(weight.shape)
    return (dx.swapaxes(-3, -2) if swapped else dx), dweight


register_kernel("rms_norm", "cpu", forward, backward)
