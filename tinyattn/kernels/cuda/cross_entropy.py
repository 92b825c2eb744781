"""Cross-entropy from logits: two launches forward, one backward, without synchronization.

Trade-offs: backward computes the exponentials again from two numbers per row. The number of counted targets, by which
the mean divides, stays on the device, and so does an error about a target out of range: see ``faults.py``.
"""

from ...autograd import register_kernel
from ...backend import backend_of
from .faults import fault_array, found
from .launch import launch
from .rows import contiguous, is_floating, wide

_SHORT = 1024  # classes up to which a warp shares a row; beyond, a block does


def forward(logits, target, *, ignore_index=-100, label_smoothing=0.0, reduction="mean"):
    if label_smoothing or reduction not in ("mean", "sum", "none") or not is_floating(logits):
        return NotImplemented
    if type(target) is not type(logits) or target.dtype.name not in ("int32", "int64"):
        return NotImplemented
    if logits.ndim < 2 or logits.size == 0 or target.shape != logits.shape[:-1]:
        return NotImplemented
    if not -(2**31) <= ignore_index < 2**31:
        return NotImplemented
    backend = backend_of(logits)
    logits, target = contiguous(logits), contiguous(target)
    rows, classes = target.size, logits.shape[-1]
    losses = backend.empty(target.shape, wide(logits.dtype))
    statistics = backend.empty((rows, 2), losses.dtype)
    threads, block = (32, 128) if classes <= _SHORT else (256, 256)
    launch(
        "cross_entropy.cu",
        "cross_entropy_forward",
        (logits.dtype, target.dtype, threads),
        -(-rows // (block // threads)),
        block,
        logits,
        target,
        losses,
        statistics,
        fault_array(backend),
        rows,
        classes,
        ignore_index,
    )
    if found(backend):
        return NotImplemented  # the rule raises the error
    count = None
    out = losses
    if reduction != "none":
        out, count = backend.empty((), logits.dtype), backend.empty((), "int32")
        mean = reduction == "mean"
        template = logits.dtype, target.dtype
        arrays = losses, target, out, count
        launch(
            "cross_entropy.cu",
            "cross_entropy_reduce",
            template,
            1,
            256,
            *arrays,
            rows,
            ignore_index,
            mean,
        )
    elif out.dtype != logits.dtype:
        out = out.astype(logits.dtype)
    return out, (logits, target, statistics, count, ignore_index)


def backward(g, residuals):
    logits, target, statistics, count, ignore_index = residuals
    dlogits = backend_of(g).empty(logits.shape, logits.dtype)
    rows, classes = target.size, logits.shape[-1]
    block = min(256, -(-classes // 32) * 32)
    arrays = contiguous(g), logits, target, statistics, count, dlogits
    template = logits.dtype, target.dtype
    launch(
        "cross_entropy.cu",
        "cross_entropy_backward",
        template,
        rows,
        block,
        *arrays,
        rows,
        classes,
        ignore_index,
    )
    return dlogits, None


register_kernel("cross_entropy", "cuda", forward, backward)
