"""Root-mean-square normalisation over the last axes, row block by row block.

What it trades: the normalised rows are kept for backward; row dot products run in BLAS. Heads that are views of a
projection are normalised where they lie.
"""

import math

import numpy as np

from ...autograd import register_kernel
from ...backend.pool import empty
from .blocks import column_sums, heads_swapped, is_floating, row_blocks


def forward(x, weight, *, axes, eps):
    affine = [] if weight is None else [weight]
    count = len(axes)
    trailing = tuple(range(x.ndim - count, x.ndim))
    if count == 0 or tuple(axis % x.ndim for axis in axes) != trailing:
        return NotImplemented
    width = math.prod(x.shape[-count:])
    if x.size == 0 or not is_floating(x, *affine):
        return NotImplemented
    if weight is not None and weight.shape != x.shape[-count:]:
        return NotImplemented
    swapped = count == 1 and heads_swapped(x)
    if swapped:
        x = x.swapaxes(-3, -2)
    rows = x.reshape(-1, width)
    normalised = empty(rows.shape, x.dtype)
    out = normalised if weight is None else empty(rows.shape, x.dtype)
    inverse_root = np.empty((rows.shape[0], 1), x.dtype)
    for block in row_blocks(rows.shape[0], width * x.itemsize):
        row, scale = rows[block], inverse_root[block]
        np.divide(np.vecdot(row, row), width, out=scale[:, 0])
        scale += eps
        np.sqrt(scale, out=scale)
        np.reciprocal(scale, out=scale)
        np.multiply(row, scale, out=normalised[block])
        if weight is not None:
            np.multiply(normalised[block], weight.reshape(-1), out=out[block])
    out = out.reshape(x.shape)
    residuals = normalised, inverse_root, weight, x.shape, swapped
    return (out.swapaxes(-3, -2) if swapped else out), residuals


def backward(g, residuals):
    normalised, inverse_root, weight, shape, swapped = residuals
    width = normalised.shape[1]
    if swapped:
        g = g.swapaxes(-3, -2)
    g_rows = g.reshape(-1, width)
    dx = empty(normalised.shape, normalised.dtype)
    dweight = None if weight is None else np.zeros(width, normalised.dtype)
    for block in row_blocks(normalised.shape[0], width * normalised.itemsize):
        g_block, unit, dx_block = g_rows[block], normalised[block], dx[block]
        if weight is None:
            pulled = g_block
        else:
            np.multiply(g_block, unit, out=dx_block)
            dweight += column_sums(dx_block)
            pulled = np.multiply(g_block, weight.reshape(-1))
        along = np.vecdot(pulled, unit)
        along /= width
        # dx = (p - x^ mean(p x^)) / rms  with  p = g w
        np.multiply(unit, along[:, None], out=dx_block)
        np.subtract(pulled, dx_block, out=dx_block)
        dx_block *= inverse_root[block]
    dx = dx.reshape(shape)
    dweight = None if weight is None else dweight.reshape(weight.shape)
    return (dx.swapaxes(-3, -2) if swapped else dx), dweight


register_kernel("rms_norm", "cpu", forward, backward)
