"""Compare arrays bit for bit."""

import numpy as np

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def same_bits(one, other):
    """Whether two arrays are equal bit for bit, NaN included; True for other values.

    >>> same_bits(np.array([np.nan]), np.array([np.nan])), same_bits(np.array([0.0]), np.array([-0.0]))
    (True, False)
    """
    if not isinstance(one, np.ndarray):
        return True
    if one.shape != other.shape:
        return False
    other = other.astype(one.dtype, copy=False)
    unsigned = _UNSIGNED.get(one.dtype.itemsize)
    if unsigned is None or one.dtype.hasobject:
        return one.tobytes() == other.tobytes()
    return bool(np.array_equal(one.view(unsigned), other.view(unsigned)))
