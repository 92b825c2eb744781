"""Layer normalisation over the last axes, row block by row block.

What it trades: the normalised rows are kept for backward. Row sums and row dot products run in BLAS. The mean in the
working precision may be off by a rounding of the mean itself, which is much for rows such as 10000 + i/1000; the
mean of what is left after subtracting it tells, and is subtracted too where it matters.
"""

import math

import numpy as np

from ...autograd import register_kernel
from ...backend.pool import empty
from .blocks import column_sums, is_floating, row_blocks, row_sums


def forward(x, weight, bias, *, axes, eps):
    affine = [array for array in (weight, bias) if array is not None]
    count = len(axes)
    trailing = tuple(range(x.ndim - count, x.ndim))
    if count == 0 or tuple(axis % x.ndim for axis in axes) != trailing:
        return NotImplemented
    width = math.prod(x.shape[-count:])
    if x.size == 0 or width == 1 or not is_floating(x, *affine):
        return NotImplemented
    if any(array.shape != x.shape[-count:] for array in affine):
        return NotImplemented
    rows = x.reshape(-1, width)
    out = empty(rows.shape, x.dtype)
    normalised = out if weight is None and bias is None else empty(rows.shape, x.dtype)
    inverse_deviation = np.empty((rows.shape[0], 1), x.dtype)
    flat_weight = None if weight is None else weight.reshape(-1)
    flat_bias = None if bias is None else bias.reshape(-1)
    for block in row_blocks(rows.shape[0], width * x.itemsize):
        centred, scale = normalised[block], inverse_deviation[block]
        centre(rows[block], centred, scale, eps)
        np.sqrt(scale, out=scale)
        np.reciprocal(scale, out=scale)
        centred *= scale
        if weight is not None:
            np.multiply(centred, flat_weight, out=out[block])
            if bias is not None:
                out[block] += flat_bias
        elif bias is not None:
            np.add(centred, flat_bias, out=out[block])
    return out.reshape(x.shape), (normalised, inverse_deviation, weight, bias, x.shape)


def centre(rows, centred, variance, eps):
    """Write ``rows`` less their means to ``centred``, both (rows, width), and the variance plus eps to (rows, 1)."""
    width = rows.shape[1]
    mean = row_sums(rows)
    mean /= width
    np.subtract(rows, mean[:, None], out=centred)
    _mean_square(centred, variance, eps)
    left = row_sums(centred)
    left /= width
    rounding = 4.0 * float(np.finfo(rows.dtype).eps)
    if not (np.abs(left) <= rounding * np.sqrt(variance[:, 0])).all():
        centred -= left[:, None]
        _mean_square(centred, variance, eps)


def _mean_square(centred, variance, eps):
    np.vecdot(centred, centred, out=variance[:, 0])
    variance /= centred.shape[1]
    variance += eps


def backward(g, residuals):
    normalised, inverse_deviation, weight, bias, shape = residuals
    width = normalised.shape[1]
    g_rows = g.reshape(-1, width)
    flat_weight = None if weight is None else weight.reshape(-1)
    dx = empty(normalised.shape, normalised.dtype)
    dweight = None if weight is None else np.zeros(width, normalised.dtype)
    for block in row_blocks(normalised.shape[0], width * normalised.itemsize):
        g_block, unit, dx_block = g_rows[block], normalised[block], dx[block]
        if weight is None:
            pulled = g_block
        else:
            np.multiply(g_block, unit, out=dx_block)
            dweight += column_sums(dx_block)
            pulled = np.multiply(g_block, flat_weight)
        along = np.vecdot(pulled, unit)
        along /= width
        mean = row_sums(pulled)
        mean /= width
        # dx = (p - mean(p) - x^ mean(p x^)) / sigma  with  p = g w
        np.multiply(unit, along[:, None], out=dx_block)
        np.subtract(pulled, dx_block, out=dx_block)
        dx_block -= mean[:, None]
        dx_block *= inverse_deviation[block]
    dbias = None if bias is None else column_sums(g_rows).reshape(bias.shape)
    return dx.reshape(shape), None if weight is None else dweight.reshape(weight.shape), dbias


register_kernel("layer_norm", "cpu", forward, backward)
