"""Which query may see which key: boolean masks, True = may attend."""

import numpy as np

from ..backend import backend_of


def causal_mask(queries, keys, xp=np):
    """A (queries, keys) boolean array: query i sees the keys up to i + keys - queries.

    The last query sees the last key, so that new queries meet the keys of a cache and their own; where there are more
    queries than keys the first ones see nothing.

    >>> causal_mask(2, 3)
    array([[ True,  True, False],
           [ True,  True,  True]])
    """
    return xp.arange(keys)[None, :] <= xp.arange(queries)[:, None] + (keys - queries)


def causal_visibility(queries, keys, causal, **_options):
    """The visibility rule of most kinds: the causal mask, or None where every query sees every key.

    >>> causal_visibility(1, 3, causal=True) is None
    True
    """
    return causal_mask(queries, keys) if causal and queries != 1 else None


def visible_keys(q, k, mask, causal):
    """The mask of a call, (..., queries, keys): ``mask`` and, if asked for, the causal one; None where all is seen."""
    if not causal:
        return mask
    xp = backend_of(getattr(q, "_data", q)).xp
    allowed = causal_mask(q.shape[-2], k.shape[-2], xp)
    return allowed if mask is None else mask & allowed
