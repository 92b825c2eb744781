"""Learning-rate schedules, functions of the step: ``group["lr"] = warmup_cosine(step, peak=1e-3, ...)``.

Steps count from 0. Warmup is linear, (step + 1) / (warmup + 1) of the peak, so that no step has the learning rate 0.
All schedules return Python floats.
"""

import math


def constant(step, *, peak, warmup=0):
    """Constant learning rate ``peak`` after a linear warmup.

    Args:
        step, peak, warmup: as for ``warmup_cosine``.

    >>> [constant(step, peak=1.0, warmup=1) for step in range(3)]
    [0.5, 1.0, 1.0]
    """
    return float(peak) * _warmup_fraction(step, warmup)


def warmup_cosine(step, *, peak, decay, minimum=0.0, warmup=0):
    """Linear warmup to ``peak``, then cosine decay to ``minimum`` at step ``decay``, constant afterwards.

    Args:
        step: the step, counted from 0.
        peak: maximum learning rate.
        decay: the step at which ``minimum`` is reached.
        minimum: final learning rate.
        warmup: number of warmup steps.

    Source: I. Loshchilov and F. Hutter, "SGDR" (2017), equation 5, one cycle.

    >>> [round(warmup_cosine(step, peak=1.0, minimum=0.1, warmup=4, decay=4), 3) for step in range(7)]
    [0.2, 0.4, 0.6, 0.8, 1.0, 0.1, 0.1]
    """
    remaining = _cosine(_decay_fraction(step, warmup, decay))
    return _interpolate(minimum, peak * _warmup_fraction(step, warmup), remaining)


def warmup_linear(step, *, peak, decay, minimum=0.0, warmup=0):
    """Linear warmup to ``peak``, then linear decay to ``minimum`` at step ``decay``, constant afterwards.

    Args:
        step, peak, decay, minimum, warmup: as for ``warmup_cosine``.

    >>> [warmup_linear(step, peak=1.0, warmup=1, decay=3) for step in range(5)]
    [0.5, 1.0, 0.5, 0.0, 0.0]
    """
    remaining = 1 - _decay_fraction(step, warmup, decay)
    return _interpolate(minimum, peak * _warmup_fraction(step, warmup), remaining)


def trapezoid(step, *, peak, decay, minimum=0.0, warmup=0, decay_share=0.5, shape="linear"):
    """Linear warmup to ``peak``, constant, then decay to ``minimum`` over the last ``decay_share`` of ``decay`` steps.

    Args:
        step, peak, decay, minimum, warmup: as for ``warmup_cosine``.
        decay_share: fraction of the steps with decay, between 0 and 1.
        shape: shape of the decay, ``"linear"`` or ``"cosine"``.

    Source: X. Zhai et al., "Scaling Vision Transformers" (2022), section 3.5.

    >>> [trapezoid(step, peak=1.0, decay=8) for step in (0, 4, 6, 8)]
    [1.0, 1.0, 0.5, 0.0]
    """
    if shape not in ("linear", "cosine"):
        raise ValueError(f'shape must be "linear" or "cosine", got {shape!r}')
    start = max(warmup, decay - decay_share * decay)
    fraction = _decay_fraction(step, start, decay)
    remaining = 1 - fraction if shape == "linear" else _cosine(fraction)
    return _interpolate(minimum, peak * _warmup_fraction(step, warmup), remaining)


def _interpolate(minimum, maximum, fraction):
    return float(minimum + (maximum - minimum) * fraction)


def _warmup_fraction(step, warmup):
    return (float(step) + 1) / (warmup + 1) if step < warmup else 1.0


def _decay_fraction(step, start, end):
    """The fraction of the decay from ``start`` to ``end`` that is complete at ``step``, 0 to 1."""
    if step <= start:
        return 0.0
    if step >= end:
        return 1.0
    return (float(step) - start) / (end - start)


def _cosine(fraction):
    return 0.5 * (1 + math.cos(math.pi * fraction))
