"""Cross-entropy from logits, without keeping probabilities.

What it trades: backward computes the exponentials again from the maximum and the sum of each row, block by block,
instead of keeping an array of the size of the logits. Targets are picked and corrected by index. A target's gradient,
its probability less 1, is minus the sum of the others' probabilities, exact also where that is less than the rounding
of 1; so that sum, too, is kept.
"""

import numpy as np

from ...autograd import register_kernel
from ...backend.pool import empty
from .blocks import is_floating, row_blocks, row_sums


def forward(logits, target, *, ignore_index=-100, label_smoothing=0.0, reduction="mean"):
    if label_smoothing or logits.ndim < 2 or logits.size == 0 or not is_floating(logits):
        return NotImplemented
    if type(target) is not np.ndarray or target.dtype.kind not in "iu":
        return NotImplemented
    if target.shape != logits.shape[:-1] or reduction not in ("mean", "sum", "none"):
        return NotImplemented
    classes = logits.shape[-1]
    rows, labels = logits.reshape(-1, classes), target.reshape(-1)
    kept = labels != ignore_index
    everything_kept = bool(kept.all())
    safe_labels = labels if everything_kept else np.where(kept, labels, 0)
    if int(safe_labels.min()) < 0 or int(safe_labels.max()) >= classes:
        return NotImplemented  # the rule words the error
    maxima = rows.max(axis=1)
    if not np.isfinite(maxima).all():
        return NotImplemented
    row_numbers = np.arange(rows.shape[0])
    others = np.empty(rows.shape[0], rows.dtype)  # the sum of the exponentials but the target's
    for block in row_blocks(rows.shape[0], classes * rows.itemsize):
        shifted = np.subtract(rows[block], maxima[block, None])
        np.exp(shifted, out=shifted)
        shifted[row_numbers[: len(shifted)], safe_labels[block]] = 0
        others[block] = row_sums(shifted)
    picked = rows[row_numbers, safe_labels] - maxima
    total = others + np.exp(picked)
    # Far from zero, log(total) + maxima would be rounded.
    losses = np.log(total) - picked
    if everything_kept:
        count = losses.size
    else:
        losses[~kept] = 0  # a product would be NaN where the loss is infinite
        count = int(np.count_nonzero(kept))
        if count == 0 and reduction == "mean":
            return NotImplemented
    if reduction == "none":
        out = losses.reshape(target.shape)
    elif reduction == "sum":
        out = np.asarray(losses.sum(), losses.dtype)
    else:
        out = np.asarray(losses.sum() / count, losses.dtype)
    if everything_kept:
        kept = None
    return out, (logits, safe_labels, kept, maxima, others, total, reduction, count)


def backward(g, residuals):
    logits, labels, kept, maxima, others, total, reduction, count = residuals
    classes = logits.shape[-1]
    rows = logits.reshape(-1, classes)
    dlogits = empty(rows.shape, rows.dtype)
    if reduction == "none":
        row_scale = g.reshape(-1)
    else:
        row_scale = np.full(
            rows.shape[0], float(g) / (count if reduction == "mean" else 1), g.dtype
        )
    if kept is not None:
        row_scale = np.where(kept, row_scale, 0)
    factors = row_scale / total
    at_target = -factors * others
    row_numbers = np.arange(rows.shape[0])
    for block in row_blocks(rows.shape[0], classes * rows.itemsize):
        part = dlogits[block]
        np.subtract(rows[block], maxima[block, None], out=part)
        np.exp(part, out=part)
        part *= factors[block, None]
        part[row_numbers[: len(part)], labels[block]] = at_target[block]
    return dlogits.reshape(logits.shape), None


register_kernel("cross_entropy", "cpu", forward, backward)
