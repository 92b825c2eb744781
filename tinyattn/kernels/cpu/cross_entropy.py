"""Cross-entropy from logits, without storing probabilities.

Trade-offs: backward recomputes the exponentials from the maximum and the sum of each row, in blocks, instead of saving
an array of the size of the logits. Targets are handled by index. The gradient of the target's logit, its probability
minus 1, is computed as minus the sum of the other probabilities, which is accurate even if it is less than the rounding
error of 1; so that sum is saved, too.
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
        return NotImplemented  # the rule raises the error
    maxima = rows.max(axis=1)
    if not np.isfinite(maxima).all():
        return NotImplemented
    row_numbers = np.arange(rows.shape[0])
    others = np.empty(rows.shape[0], rows.dtype)  # sums of exponentials without the target's
    for block in row_blocks(rows.shape[0], classes * rows.itemsize):
        shifted = np.subtract(rows[block], maxima[block, None])
        np.exp(shifted, out=shifted)
        shifted[row_numbers[: len(shifted)], safe_labels[block]] = 0
        others[block] = row_sums(shifted)
    picked = rows[row_numbers, safe_labels] - maxima
    total = others + np.exp(picked)
    # Not log(total) + maxima - logit: for large logits this would lose digits.
    losses = np.log(total) - picked
    if everything_kept:
        count = losses.size
    else:
        losses[~kept] = 0  # not a product: 0 times an infinite loss is NaN
        count = int(np.count_nonzero(kept))
        if count == 0 and reduction == "mean":
            return NotImplemented
    if reduction == "none":
        out = losses.reshape(target.shape)
    else:
        total_loss = losses.sum()
        out = np.asarray(total_loss / count if reduction == "mean" else total_loss, losses.dtype)
    kept = None if everything_kept else kept
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
