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


def window_mask(queries, keys, window, global_tokens=0, causal=False):
    """The (queries, keys) booleans of ``kind="window"``: see ``sliding_window_attention``.

    >>> window_mask(3, 3, window=2, causal=True).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [0, 1, 1]])
    """
    query, key = np.arange(keys - queries, keys)[:, None], np.arange(keys)
    if causal:
        return (key <= query) & ((key > query - window) | (key < global_tokens))
    near = abs(query - key) <= window // 2
    return near | (key < global_tokens) | (query < global_tokens)


def visible_keys(q, k, mask, causal):
    """The mask of a call, (..., queries, keys): ``mask`` and, if asked for, the causal one; None where all is seen."""
    if not causal:
        return mask
    xp = backend_of(getattr(q, "_data", q)).xp
    allowed = causal_mask(q.shape[-2], k.shape[-2], xp)
    return allowed if mask is None else mask & allowed
