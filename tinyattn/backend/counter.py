"""Counter-based random bits: a stateless function of a key and a counter, identical on every backend.

Element n of a mask is a fixed function of (key, n), so that a backward pass can recompute the mask, and a tile of a
large mask can be computed without the rest.
"""

import numpy as np

from .base import array_namespace

_GOLDEN_RATIO = 0x9E3779B9  # 2**32 divided by the golden ratio: distributes consecutive counters
_MIX_ONE = 0x21F0AAAD
_MIX_TWO = 0xD35A2D97


def random_bits(key, counter):
    """32 random bits for each element of ``counter`` (a uint32 array), under a 64-bit ``key``.

    Two rounds of a 32-bit integer hash, each keyed with one half of the key. Source of the multipliers: C. Wellons,
    "Prospecting for hash functions" (2018), the two-round function of lowest measured bias.
    """
    xp = array_namespace(counter)
    low = xp.uint32(key & 0xFFFFFFFF)
    high = xp.uint32((key >> 32) & 0xFFFFFFFF)
    bits = (counter ^ low) * xp.uint32(_GOLDEN_RATIO)
    for half in (high, low):
        bits = bits ^ (bits >> xp.uint32(16))
        bits = bits * xp.uint32(_MIX_ONE)
        bits = bits ^ (bits >> xp.uint32(15))
        bits = bits * xp.uint32(_MIX_TWO)
        bits = bits ^ (bits >> xp.uint32(15))
        bits = bits ^ half
    return bits


def keep_mask(counter, key, drop_probability):
    """A boolean array, True with probability ``1 - drop_probability`` (the element is kept).

    Args:
        counter: a uint32 array with the indices of the elements.
        key: an integer below 2**64.
        drop_probability: between 0 and 1.

    >>> import numpy as np
    >>> kept = keep_mask(np.arange(10000, dtype=np.uint32), key=1, drop_probability=0.25)
    >>> bool(abs(kept.mean() - 0.75) < 0.02)
    True
    """
    threshold = round(drop_probability * 2**32)
    if threshold >= 2**32:
        return counter != counter
    return random_bits(key, counter) >= np.uint32(threshold)
