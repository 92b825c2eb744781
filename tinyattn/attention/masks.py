"""Boolean attention masks: True where a query may attend to a key."""

import numpy as np

from ..autograd import Tensor
from ..backend import backend_of, is_array


def boolean_mask(mask, backend, name):
    """Convert a mask to a boolean array of ``backend``.

    Args:
        mask: a tensor or an array on the device of ``backend``, or a nested sequence.
        backend: the backend of the tensors that the mask applies to.
        name: the name of the mask in error messages.

    Raises:
        TypeError: for a mask that is not boolean, or that is on another device.
    """
    if isinstance(mask, Tensor):
        mask = mask._data
    elif not is_array(mask):
        mask = backend.asarray(np.array(mask))
    if mask.dtype.kind != "b":
        raise TypeError(
            f"the {name} has dtype {mask.dtype}: expected booleans, True = may attend; pass mask.astype(bool), "
            "or mask == 0 for a mask that other libraries add to the scores"
        )
    if backend_of(mask) is not backend:
        raise TypeError(
            f"the {name} is on {backend_of(mask).device}, expected {backend.device}: nothing is moved silently"
        )
    return mask


def causal_mask(queries, keys, xp=np):
    """A (queries, keys) boolean array: query i sees the keys up to i + keys - queries.

    The last query sees the last key, so that new queries see the keys of a cache and their own. With more queries than
    keys, the first queries see no key.

    >>> causal_mask(2, 3)
    array([[ True,  True, False],
           [ True,  True,  True]])
    """
    return xp.arange(keys)[None, :] <= xp.arange(queries)[:, None] + (keys - queries)


def causal_visibility(queries, keys, causal, **_options):
    """The visibility rule of most kinds: the causal mask, or None if every query sees every key.

    >>> causal_visibility(1, 3, causal=True) is None
    True
    """
    return causal_mask(queries, keys) if causal and queries != 1 else None


def visible_keys(q, k, mask, causal):
    """Combine ``mask`` with the causal mask, (..., queries, keys); None if every query sees every key."""
    if not causal:
        return mask
    xp = backend_of(getattr(q, "_data", q)).xp
    allowed = causal_mask(q.shape[-2], k.shape[-2], xp)
    return allowed if mask is None else mask & allowed
