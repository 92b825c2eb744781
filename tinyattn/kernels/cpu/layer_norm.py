"""Layer normalisation over the last axes, row block by row block.

What it trades: the rows less their means are kept for backward, not yet divided by their deviations: a number for each
row and a weight for each column multiply a block in one pass, by their outer product, which BLAS writes in less time
than NumPy takes for either. Means and dot products of rows run in BLAS too. The mean in the working precision may be
off by a rounding of the mean itself, which is much for rows such as 10000 + i/1000, and all there is in a constant row:
where it exceeds the deviation the row is centred as in the rule, less its first element first. Rows whose squares
overflow are left to the rule.
"""

import math

import numpy as np

from ...autograd import register_kernel
from ...backend.pool import empty
from .blocks import column_sums, is_floating, ones, row_blocks, row_means, shares


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
    # In this order: the pool hands out what was used last, and of the two centred is the more worked on.
    centred, out = empty(rows.shape, x.dtype), empty(rows.shape, x.dtype)
    inverse_deviation = np.empty(rows.shape[0], x.dtype)
    flat_weight = ones(width, x.dtype) if weight is None else weight.reshape(-1)
    for block in row_blocks(rows.shape[0], width * x.itemsize):
        out_block, centred_block, scale = out[block], centred[block], inverse_deviation[block]
        centre(rows[block], centred_block, scale)
        scale += eps
        np.sqrt(scale, out=scale)
        np.reciprocal(scale, out=scale)
        np.dot(scale[:, None], flat_weight[None], out=out_block)
        out_block *= centred_block
        if bias is not None:
            out_block += bias.reshape(-1)
    if not inverse_deviation.all():
        return NotImplemented
    # Of the normalised rows x^ = kept * factor, the output itself is kept where it is that.
    kept, factor = (centred, inverse_deviation) if affine else (out, ones(len(out), x.dtype))
    return out.reshape(x.shape), (kept, factor, inverse_deviation, weight, bias, x.shape)


def centre(rows, centred, variance):
    """Write ``rows`` less their means to ``centred``, both (rows, width), and their variance to (rows,)."""
    mean = row_means(rows)
    np.subtract(rows, mean[:, None], out=centred)
    _mean_square(centred, variance)
    far = mean * mean >= variance
    if far.any():
        np.subtract(rows, np.where(far, rows[:, 0], mean)[:, None], out=centred)
        left = row_means(centred)
        left[~far] = 0  # what becomes of a row must not depend on its neighbours
        centred -= left[:, None]
        _mean_square(centred, variance)


def _mean_square(centred, variance):
    np.vecdot(centred, centred, out=variance)
    variance /= centred.shape[1]


def backward(g, residuals):
    kept, factor, inverse_deviation, weight, bias, shape = residuals
    width = kept.shape[1]
    g_rows = g.reshape(-1, width)
    flat_weight = ones(width, kept.dtype) if weight is None else weight.reshape(-1)
    averaging = flat_weight * shares(width, kept.dtype)
    dx = empty(kept.shape, kept.dtype)
    dweight = None if weight is None else np.zeros(width, kept.dtype)
    blocks = row_blocks(kept.shape[0], width * kept.itemsize)
    scratch = empty((blocks[0].stop, width), kept.dtype)
    for block in blocks:
        g_block, kept_block, dx_block = g_rows[block], kept[block], dx[block]
        to_unit, scale = factor[block], inverse_deviation[block]
        product = np.multiply(g_block, kept_block, out=scratch[: len(g_block)])
        if weight is not None:
            dweight += to_unit @ product
        # dx = (p - mean(p) - x^ mean(p x^)) / sigma  with  p = g w,  x^ = kept * factor
        mean = g_block @ averaging
        mean *= scale
        along = product @ averaging
        along *= to_unit
        along *= to_unit
        along *= scale
        np.dot(scale[:, None], flat_weight[None], out=dx_block)
        dx_block *= g_block
        dx_block -= np.multiply(kept_block, along[:, None], out=product)
        dx_block -= mean[:, None]
    dbias = None if bias is None else column_sums(g_rows).reshape(bias.shape)
    return dx.reshape(shape), None if weight is None else dweight.reshape(weight.shape), dbias


register_kernel("layer_norm", "cpu", forward, backward)
