"""Sequences of different lengths in one batch: filled up with padding, which must change nothing."""

from ..backend import array_namespace


def key_mask(padding_mask):
    """The mask of attention, (..., 1, 1, length), True where a key may be seen, from that of tokens, (..., length).

    >>> import numpy as np
    >>> key_mask(np.array([[False, True]])).shape
    (1, 1, 1, 2)
    """
    return None if padding_mask is None else padding_mask[..., None, None, :]


def token_positions(padding_mask, length):
    """The position of each of the last ``length`` tokens, padding not counted, (..., length); None without padding.

    >>> import numpy as np
    >>> token_positions(np.array([[False, False, True, True]]), 4)
    array([[0, 0, 0, 1]])
    """
    if padding_mask is None:
        return None
    xp = array_namespace(padding_mask)
    positions = xp.cumsum(padding_mask.astype(int), axis=-1) - 1
    return xp.maximum(positions, 0)[..., -length:]
