"""Split a sequence into blocks of equal length, padded with zeros, and join them again."""

from ..backend import array_namespace


def split_into_blocks(x, block):
    """(..., length, dim) to (..., blocks, block, dim), with zeros after the end of the sequence.

    >>> import numpy as np
    >>> split_into_blocks(np.ones((3, 1)), 2)[..., 0].tolist()
    [[1.0, 1.0], [1.0, 0.0]]
    """
    xp = array_namespace(x)
    *leading, length, dim = x.shape
    missing = -length % block
    if missing:
        padding = xp.broadcast_to(x[..., :1, :], (*leading, missing, dim))
        x = xp.concatenate([x, xp.zeros_like(padding)], axis=-2)
    return xp.reshape(x, (*leading, (length + missing) // block, block, dim))


def join_blocks(x, length):
    """The adjoint of ``split_into_blocks``: (..., blocks, block, dim) to (..., length, dim), without the padding."""
    *leading, blocks, block, dim = x.shape
    return array_namespace(x).reshape(x, (*leading, blocks * block, dim))[..., :length, :]
