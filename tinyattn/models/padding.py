"""Padding masks: batches of sequences of different lengths, whose padding must not affect the results."""

from ..attention.masks import boolean_mask
from ..backend import array_namespace, get_backend


def as_padding_mask(padding_mask, ids, model):
    """Convert ``padding_mask`` to a boolean array of the shape of ``ids``; nested lists go to the model's device.

    Raises:
        TypeError: for a mask that is not boolean, or that is on another device.
        ValueError: for another shape.

    >>> import tinyattn as ta
    >>> import numpy as np
    >>> as_padding_mask([[True, False]], np.zeros((1, 2)), ta.nn.Linear(1, 1))
    array([[ True, False]])
    """
    if padding_mask is None:
        return None
    padding_mask = boolean_mask(padding_mask, get_backend(model.device), "padding_mask")
    if padding_mask.shape != ids.shape:
        raise ValueError(
            f"padding_mask has shape {padding_mask.shape} and the ids {ids.shape}: expected the same shape"
        )
    return padding_mask


def key_mask(padding_mask):
    """The attention mask of keys, (..., 1, 1, length), from the padding mask of tokens, (..., length).

    >>> import numpy as np
    >>> key_mask(np.array([[False, True]])).shape
    (1, 1, 1, 2)
    """
    return None if padding_mask is None else padding_mask[..., None, None, :]


def token_positions(padding_mask):
    """The position of each token, (..., length), without counting padding; None without a mask.

    >>> import numpy as np
    >>> token_positions(np.array([[False, False, True, True]]))
    array([[0, 0, 0, 1]])
    """
    if padding_mask is None:
        return None
    xp = array_namespace(padding_mask)
    positions = xp.cumsum(padding_mask.astype(int), axis=-1) - 1
    return xp.maximum(positions, 0)
