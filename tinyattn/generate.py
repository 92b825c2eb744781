"""Text out of a trained model, a character at a time."""

import math

import numpy as np


def sample_probabilities(logits, temperature=1.0, top_k=None, top_p=None):
    """The distribution that the next character is drawn from.

    First the temperature divides the logits, then top-k keeps the k largest, then top-p keeps the
    smallest set whose probability reaches p (Holtzman et al. 2020), and what is left is
    normalised.

    Args:
        logits: NumPy array (..., vocabulary), finite or -inf (a character that must not come).
        temperature: 0 puts everything on the largest logit; below 1 sharpens, above 1 flattens.
        top_k: how many characters to keep, at least 1; more than there are keeps them all. Among
            equal logits the lowest id is kept first, so that exactly k are kept.
        top_p: share of the probability to keep, 0 to 1; the character that crosses it is kept, so
            that 0 keeps one and 1 keeps all.

    Returns:
        float64 array (..., vocabulary); the last axis sums to 1.

    Raises:
        ValueError: for NaN or +inf among the logits, for none above -inf, for an argument out of
            range.

    >>> sample_probabilities(np.log([0.5, 0.3, 0.15, 0.05]), top_p=0.6).round(3).tolist()
    [0.625, 0.375, 0.0, 0.0]
    """
    check_sampling(temperature, top_k, top_p)
    logits = np.asarray(logits, dtype=np.float64)
    _check_logits(logits)
    # Ids from the largest logit to the smallest; a stable sort leaves equal ones in the order of
    # ids.
    order = np.argsort(-logits, axis=-1, kind="stable")
    ranked = np.take_along_axis(logits, order, axis=-1)
    ranked = ranked - ranked[..., :1]
    if temperature == 0:
        p = np.zeros_like(ranked)
        p[..., 0] = 1.0
    else:
        if top_k is not None:
            ranked[..., top_k:] = -np.inf
        with np.errstate(over="ignore"):  # a tiny temperature sends all but the largest to -inf
            p = np.exp(ranked / temperature)
        p /= p.sum(axis=-1, keepdims=True)
        if top_p is not None and top_p < 1:
            before = np.full_like(p, -1.0)  # the first is kept even for top_p = 0
            before[..., 1:] = np.cumsum(p, axis=-1)[..., :-1]  # probability of what ranks higher
            p = np.where(before < top_p, p, 0.0)
            p /= p.sum(axis=-1, keepdims=True)
    result = np.empty_like(p)
    np.put_along_axis(result, order, p, axis=-1)
    return result


def check_sampling(temperature=1.0, top_k=None, top_p=None):
    """Raise a ValueError that names the first of the three arguments that is out of range."""
    if not (temperature >= 0 and math.isfinite(temperature)):
        raise ValueError(f"temperature must be a finite number of at least 0, given {temperature}")
    if top_k is not None and (top_k != int(top_k) or top_k < 1):
        raise ValueError(f"top_k must be a whole number of at least 1, given {top_k}")
    if top_p is not None and not 0 <= top_p <= 1:
        raise ValueError(f"top_p must be between 0 and 1, given {top_p}")


def _check_logits(logits):
    if logits.ndim == 0 or logits.shape[-1] == 0:
        raise ValueError(f"expected logits of shape (..., vocabulary), given {logits.shape}")
    wrong = np.isnan(logits) | (logits == np.inf)
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(
            f"{int(wrong.sum())} of {logits.size} logits cannot be sampled from, "
            f"the first is {logits[place]} at {place}: the model is broken"
        )
    if (logits.max(axis=-1) == -np.inf).any():
        raise ValueError("every logit is -inf: no character is left to sample")


def draw(p, random):
    """One id for each distribution in ``p``, float64 (..., vocabulary), by its cumulative sum.

    Dividing by the sum here makes any rounding of ``p`` harmless, and a probability of 0 is
    never drawn.

    >>> int(draw(np.array([0.0, 1.0, 0.0]), Random(0)))
    1
    """
    cumulative = np.cumsum(p, axis=-1, dtype=np.float64)
    total = cumulative[..., -1:]
    threshold = random.uniform(size=p.shape[:-1] + (1,)) * total
    last = np.argmax(cumulative == total, axis=-1)  # the product above may round up to the total
    return np.minimum(np.sum(cumulative <= threshold, axis=-1), last)


def context_start(position, block_size, slide):
    """Where the context begins from which the character at ``position`` is predicted.

    0 while everything fits. From then on it moves in jumps of ``slide`` characters, so that the
    context holds between ``block_size - slide + 1`` and ``block_size`` characters.

    >>> [context_start(position, 4, 1) for position in range(3, 8)]
    [0, 0, 1, 2, 3]
    >>> [context_start(position, 4, 2) for position in range(3, 9)]
    [0, 0, 2, 2, 4, 4]
    """
    return max(0, -(-(position - block_size) // slide) * slide)
