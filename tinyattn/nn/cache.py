"""Key-value cache for incremental decoding."""

from ..autograd import Tensor
from ..backend import array_namespace, backend_of
from ..ops import concatenate


class KeyValueCache:
    """The keys and values of the tokens that one attention layer has processed.

    Attributes:
        keys, values: tensors (..., heads, length, head_dim), None before the first token. Keys are stored after
            normalization and rotary positions.
        sums: the ``prefix_state`` of an attention kind that has one, instead of keys and values; its size is constant.
        length: number of tokens processed.

    >>> import tinyattn as ta
    >>> cache = KeyValueCache()
    >>> one_token = ta.tensor([[[1.0, 2.0]]])  # (heads, length, head_dim)
    >>> for _ in range(3):
    ...     keys, values = cache.extend(one_token, one_token)
    >>> cache.length, keys.shape
    (3, (1, 3, 2))
    """

    def __init__(self):
        # Tensors (..., heads, capacity, head_dim), of which the first ``length`` rows are in use.
        self._keys = self._values = None
        self.sums = None
        self.length = 0

    @property
    def keys(self):
        return None if self._keys is None else _first_rows(self._keys, self.length)

    @property
    def values(self):
        return None if self._values is None else _first_rows(self._values, self.length)

    def extend(self, keys, values):
        """Append the keys and values of new tokens; returns those of all tokens.

        Raises:
            ValueError: if the cache contains prefix sums, or keys of another batch shape, dtype or device.
        """
        if self.sums is not None:
            raise ValueError(
                "the cache contains prefix sums, which cannot be masked afterwards: "
                "pass padding_mask from the first tokens on"
            )
        new = keys.shape[-2]
        if self._keys is not None and self._keys.shape[:-2] != keys.shape[:-2]:
            raise ValueError(
                f"the cache contains keys of shape {self.keys.shape}, got new ones of shape {keys.shape}: "
                "expected the same sequences; create a new cache for others"
            )
        kind = keys.dtype, keys.device
        if self._keys is not None and (self._keys.dtype, self._keys.device) != kind:
            raise ValueError(
                f"the cache contains {self._keys.dtype} keys on {self._keys.device}, got {keys.dtype} keys on "
                f"{keys.device}: create a new cache after moving the model"
            )
        if keys.requires_grad or values.requires_grad:
            if self._keys is not None:
                keys = concatenate([self.keys, keys], axis=-2)
                values = concatenate([self.values, values], axis=-2)
            self._keys, self._values = keys, values
        else:
            self.reserve(self.length + new, keys, values)
            rows = slice(self.length, self.length + new)
            self._keys._data[..., rows, :] = keys._data
            self._values._data[..., rows, :] = values._data
        self.length += new
        return self.keys, self.values

    def reserve(self, length, keys, values):
        """Allocate memory for ``length`` tokens in total; the capacity at least doubles.

        Args:
            length: number of tokens, including those in the cache.
            keys, values: tensors of the shape (..., heads, any length, head_dim), dtype and device of the new ones.
        """
        if self._keys is None or self._keys.shape[-2] < length:
            capacity = max(16, length, 2 * self.length)
            self._keys = self._reallocated(self._keys, keys, capacity)
            self._values = self._reallocated(self._values, values, capacity)

    def append_uninitialized(self):
        """Append one token of a single text; the caller writes its key and value.

        Returns:
            Keys and values, arrays (heads, capacity, head_dim), to be written in row ``length - 1``.
        """
        self.reserve(self.length + 1, self._keys, self._values)
        self.length += 1
        return self._keys._data[0], self._values._data[0]

    def _reallocated(self, old, like, capacity):
        shape = (*like.shape[:-2], capacity, like.shape[-1])
        buffer = backend_of(like._data).empty(shape, like.dtype)
        if old is not None:
            buffer[..., : self.length, :] = old._data[..., : self.length, :]
        return Tensor._wrap(buffer)

    def attend_with_sums(self, prefix_state, q, k, v, **options):
        """Causal attention of new tokens to each other, and to earlier tokens through their prefix sums.

        Args:
            prefix_state: the attribute of an ``AttentionKind``.
            options: all options of the kind.
        """
        if self.sums is None:
            self.sums = prefix_state(**options)
        self.length += k.shape[-2]
        return self.sums.attend(q, k, v)


def _first_rows(tensor, length):
    if tensor.shape[-2] == length:
        return tensor
    return Tensor._wrap(tensor._data[..., :length, :])


class ModelCache:
    """A ``KeyValueCache`` for each block of a model, and the padding mask of the tokens so far.

    Attributes:
        last_ids: the last token of each text, an array (...,), which a model with an embedding of previous tokens sets.

    >>> ModelCache(layers=2).length
    0
    """

    def __init__(self, layers):
        self.layers = [KeyValueCache() for _ in range(layers)]
        self.padding_mask = None
        self.last_ids = None

    @property
    def length(self):
        """Number of tokens processed."""
        return self.layers[0].length

    def extend_padding_mask(self, padding_mask, shape):
        """Append the padding mask of new tokens, of ``shape``; returns the mask of all tokens, None without padding."""
        if padding_mask is None and self.padding_mask is None:
            return None
        like = padding_mask if padding_mask is not None else self.padding_mask
        xp = array_namespace(like)
        before = self.padding_mask
        if before is None:
            before = xp.ones((*shape[:-1], self.length), dtype=bool)
        if padding_mask is None:
            padding_mask = xp.ones(shape, dtype=bool)
        self.padding_mask = xp.concatenate([before, padding_mask], axis=-1)
        return self.padding_mask

    def __repr__(self):
        return f"{type(self).__name__}(layers={len(self.layers)}, length={self.length})"
