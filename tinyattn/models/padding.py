"""Sequences of different lengths in one batch: filled up with padding, which must change nothing."""

import numpy as np

from ..autograd import Tensor
from ..backend import array_namespace, get_backend, is_array


def as_padding_mask(padding_mask, ids, model):
    """``padding_mask`` as an array of booleans with the shape of ``ids``; nested lists go to the model's device.

    Raises:
        TypeError: unless it holds booleans.
        ValueError: for another shape.

    >>> import tinyattn as ta
    >>> as_padding_mask([[True, False]], np.zeros((1, 2)), ta.nn.Linear(1, 1))
    array([[ True, False]])
    """
    if padding_mask is None:
        return None
    if isinstance(padding_mask, Tensor):
        padding_mask = padding_mask._data
    elif not is_array(padding_mask):
        padding_mask = get_backend(model.device).asarray(np.array(padding_mask))
    if padding_mask.dtype.kind != "b":
        raise TypeError(
            f"padding_mask has dtype {padding_mask.dtype}: expected booleans, True for real tokens"
        )
    if padding_mask.shape != ids.shape:
        raise ValueError(
            f"padding_mask has shape {padding_mask.shape} and the ids {ids.shape}: expected a truth value for each id"
        )
    return padding_mask


def key_mask(padding_mask):
    """The mask of attention, (..., 1, 1, length), True where a key may be seen, from that of tokens, (..., length).

    >>> key_mask(np.array([[False, True]])).shape
    (1, 1, 1, 2)
    """
    return None if padding_mask is None else padding_mask[..., None, None, :]


def token_positions(padding_mask):
    """The position of each token, padding not counted, (..., length); None without padding.

    >>> token_positions(np.array([[False, False, True, True]]))
    array([[0, 0, 0, 1]])
    """
    if padding_mask is None:
        return None
    xp = array_namespace(padding_mask)
    positions = xp.cumsum(padding_mask.astype(int), axis=-1) - 1
    return xp.maximum(positions, 0)
