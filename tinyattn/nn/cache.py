"""Keys and values of the tokens seen so far, so that each new token costs one query."""

from ..attention.linear import LinearState
from ..backend import array_namespace
from ..ops import concatenate


class KeyValueCache:
    """What one attention layer keeps of the tokens it has seen.

    Attributes:
        keys, values: tensors (..., heads, length, head_dim), None before the first token. Keys are kept as the scores
            need them, normalised and turned by their positions.
        sums: a ``LinearState`` in their place, whose size does not grow, for linear attention without padding.
        length: how many tokens have been seen.

    >>> import tinyattn as ta
    >>> cache = KeyValueCache()
    >>> one_token = ta.tensor([[[1.0, 2.0]]])  # (heads, length, head_dim)
    >>> for _ in range(3):
    ...     keys, values = cache.extend(one_token, one_token)
    >>> cache.length, keys.shape
    (3, (1, 3, 2))
    """

    def __init__(self):
        self.keys = None
        self.values = None
        self.sums = None
        self.length = 0

    def extend(self, keys, values):
        """Add the keys and values of further tokens; returns all of them, old and new.

        Raises:
            ValueError: if the earlier ones were only summed up.
        """
        if self.sums is not None:
            raise ValueError(
                "the tokens seen so far are one running sum, from which padding cannot be told: "
                "give padding_mask from the first tokens on"
            )
        self.length += keys.shape[-2]
        if self.keys is not None:
            keys = concatenate([self.keys, keys], axis=-2)
            values = concatenate([self.values, values], axis=-2)
        self.keys, self.values = keys, values
        return keys, values

    def attend_linearly(self, q, k, v, **options):
        """Causal linear attention of further tokens to themselves and to the sums of all before them."""
        if self.sums is None:
            self.sums = LinearState(**options)
        self.length += k.shape[-2]
        return self.sums.attend(q, k, v)


class ModelCache:
    """One ``KeyValueCache`` for each block of a model, and the padding mask of the tokens seen so far.

    >>> ModelCache(layers=2).length
    0
    """

    def __init__(self, layers):
        self.layers = [KeyValueCache() for _ in range(layers)]
        self.padding_mask = None

    @property
    def length(self):
        """How many tokens have been seen."""
        return self.layers[0].length

    def extend_padding_mask(self, padding_mask, shape):
        """Take in the padding mask of new tokens, of ``shape``; returns that of all tokens, or None if all are real."""
        if padding_mask is None and self.padding_mask is None:
            return None
        like = padding_mask if padding_mask is not None else self.padding_mask
        xp = array_namespace(like)
        if self.padding_mask is None:
            self.padding_mask = xp.ones((*shape[:-1], self.length), dtype=bool)
        if padding_mask is None:
            padding_mask = xp.ones(shape, dtype=bool)
        self.padding_mask = xp.concatenate([self.padding_mask, padding_mask], axis=-1)
        return self.padding_mask

    def __repr__(self):
        return f"{type(self).__name__}(layers={len(self.layers)}, length={self.length})"
