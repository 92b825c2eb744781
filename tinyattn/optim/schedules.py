"""Learning rates as functions of the step: ``group["lr"] = warmup_cosine(step, peak=1e-3, ...)``.

Steps count from 0. During warmup the rate rises in equal parts, (step + 1) / (warmup + 1) of the peak, so that no step
has the rate 0. All return Python floats.
"""

import math


def constant(step, *, peak, warmup=0):
    """``peak`` at every step, after a warmup.

    >>> [constant(step, peak=1.0, warmup=1) for step in range(3)]
    [0.5, 1.0, 1.0]
    """
    return float(peak) * _warmup_share(step, warmup)


def warmup_cosine(step, *, peak, decay, minimum=0.0, warmup=0):
    """Up to ``peak``, then half a cosine wave down to ``minimum`` at step ``decay``, which stays.

    Args:
        step: counts from 0.
        peak: largest learning rate.
        decay: the step at which ``minimum`` is reached.
        minimum: smallest learning rate.
        warmup: steps of the way up.

    Source: I. Loshchilov and F. Hutter, "SGDR" (2017), equation 5, one cycle.

    >>> [round(warmup_cosine(step, peak=1.0, minimum=0.1, warmup=4, decay=4), 3) for step in range(7)]
    [0.2, 0.4, 0.6, 0.8, 1.0, 0.1, 0.1]
    """
    left = _cosine(_decay_share(step, warmup, decay))
    return _between(minimum, peak * _warmup_share(step, warmup), left)


def warmup_linear(step, *, peak, decay, minimum=0.0, warmup=0):
    """Up to ``peak``, then in a straight line down to ``minimum`` at step ``decay``, which stays.

    >>> [warmup_linear(step, peak=1.0, warmup=1, decay=3) for step in range(5)]
    [0.5, 1.0, 0.5, 0.0, 0.0]
    """
    left = 1 - _decay_share(step, warmup, decay)
    return _between(minimum, peak * _warmup_share(step, warmup), left)


def trapezoid(step, *, peak, decay, minimum=0.0, warmup=0, decay_share=0.5, shape="linear"):
    """Up to ``peak``, level, then down to ``minimum`` over the last ``decay_share`` of the ``decay`` steps.

    Args:
        step, peak, decay, minimum, warmup: as for ``warmup_cosine``.
        decay_share: share of the steps that the way down takes, between 0 and 1.
        shape: of the way down, ``"linear"`` or ``"cosine"``.

    Source: X. Zhai et al., "Scaling Vision Transformers" (2022), section 3.5.

    >>> [trapezoid(step, peak=1.0, decay=8) for step in (0, 4, 6, 8)]
    [1.0, 1.0, 0.5, 0.0]
    """
    if shape not in ("linear", "cosine"):
        raise ValueError(f'shape must be "linear" or "cosine", got {shape!r}')
    start = max(warmup, decay - decay_share * decay)
    share = _decay_share(step, start, decay)
    left = 1 - share if shape == "linear" else _cosine(share)
    return _between(minimum, peak * _warmup_share(step, warmup), left)


def _between(minimum, maximum, share):
    return float(minimum + (maximum - minimum) * share)


def _warmup_share(step, warmup):
    return (float(step) + 1) / (warmup + 1) if step < warmup else 1.0


def _decay_share(step, start, end):
    """How much of the way from ``start`` to ``end`` lies behind ``step``: 0 to 1."""
    if step <= start:
        return 0.0
    if step >= end:
        return 1.0
    return (float(step) - start) / (end - start)


def _cosine(share):
    return 0.5 * (1 + math.cos(math.pi * share))
