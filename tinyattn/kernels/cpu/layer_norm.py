"""Layer normalization over the last axes, in blocks of rows.

Trade-offs: the centered rows are saved for backward, before the division by their standard deviation. A factor per row
and a weight per column multiply a block in one pass, as their outer product, which BLAS computes in less time than
NumPy needs for either. Means and dot products of rows are computed by BLAS, too. The rounding error of a mean is
relative to the mean, which is large for rows such as 10000 + i/1000, and all that remains of a constant row: if the
mean exceeds the deviation, the row is centered as in the rule, after subtracting its first element. The rule handles
rows whose squares overflow.
"""

import numpy as np

from ...autograd import register_kernel
from ...backend.pool import empty
from .blocks import column_sums, ones, row_blocks, row_means, row_width, shares


def forward(x, weight, bias, *, axes, eps):
    width = row_width(x, axes, weight, bias)
    if width is None or width == 1:
        return NotImplemented
    rows = x.reshape(-1, width)
    # In this order: the pool returns the block used last first, and centered is accessed more often than out.
    centered, out = empty(rows.shape, x.dtype), empty(rows.shape, x.dtype)
    inverse_deviation = np.empty(rows.shape[0], x.dtype)
    flat_weight = ones(width, x.dtype) if weight is None else weight.reshape(-1)
    for block in row_blocks(rows.shape[0], width * x.itemsize):
        out_block, centered_block, scale = out[block], centered[block], inverse_deviation[block]
        center(rows[block], centered_block, scale)
        scale += eps
        np.sqrt(scale, out=scale)
        np.reciprocal(scale, out=scale)
        np.dot(scale[:, None], flat_weight[None], out=out_block)
        out_block *= centered_block
        if bias is not None:
            out_block += bias.reshape(-1)
    if not inverse_deviation.all():
        return NotImplemented
    # The normalized rows are x^ = kept * factor; without weight and bias they are the output.
    has_affine = weight is not None or bias is not None
    kept, factor = (centered, inverse_deviation) if has_affine else (out, ones(len(out), x.dtype))
    return out.reshape(x.shape), (kept, factor, inverse_deviation, weight, bias, x.shape)


def center(rows, centered, variance):
    """Write ``rows`` minus their means to ``centered``, both (rows, width), and their variances to (rows,)."""
    mean = row_means(rows)
    np.subtract(rows, mean[:, None], out=centered)
    _mean_square(centered, variance)
    far = mean * mean >= variance
    if far.any():
        np.subtract(rows, np.where(far, rows[:, 0], mean)[:, None], out=centered)
        left = row_means(centered)
        left[~far] = 0  # the result of a row must not depend on other rows
        centered -= left[:, None]
        _mean_square(centered, variance)


def _mean_square(centered, variance):
    np.vecdot(centered, centered, out=variance)
    variance /= centered.shape[1]


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
