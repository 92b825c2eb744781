"""Bigram embedding: a learned vector for each pair of a token and the one before it."""

import numpy as np

from ..autograd import Tensor
from ..backend import array_namespace
from ..ops import embedding
from .module import Module
from .parameter import Parameter


class BigramEmbedding(Module):
    """Look up a row of a table for each pair of a token and the one before it.

    A model needs no attention for statistics of pairs then. The V ids of a vocabulary form V (V + 1) pairs: the first
    token of a text follows the id V, which no token has. If the table can have as many rows, each pair has its own:

        row = V previous + id.

    Otherwise pairs share rows by multiplicative hashing: with a constant a near 2^32 times the golden ratio,

        row = floor(((V previous + id) a mod 2^32) / 2^32 * rows).

    Args:
        vocabulary_size: V, the number of ids.
        dim: length of a row.
        most_rows: largest number of rows.

    Attributes:
        weight: (rows, dim), initialized with 0, so that training starts from the vectors of single tokens.

    Source: hashed n-grams: P. Bojanowski et al., "Enriching Word Vectors with Subword Information" (2017), section 3.2;
    multiplicative hashing: D. Knuth, "The Art of Computer Programming", volume 3 (1998), section 6.4.

    >>> import tinyattn as ta
    >>> bigrams = BigramEmbedding(vocabulary_size=10, dim=4, most_rows=200)
    >>> bigrams(ta.tensor([[1, 2, 2]])).shape, bigrams.weight.shape
    ((1, 3, 4), (110, 4))
    """

    def __init__(self, vocabulary_size, dim, most_rows):
        self.vocabulary_size = vocabulary_size
        pairs = vocabulary_size * (vocabulary_size + 1)
        self.is_exact = pairs <= most_rows
        rows = pairs if self.is_exact else most_rows
        self.weight = Parameter(np.zeros((rows, dim), np.float32))

    def forward(self, ids, previous=None):
        """The vectors of ``ids``, (..., length, dim).

        Args:
            ids: integers (..., length), a tensor or an array.
            previous: the ids before them, an array of the same shape, from ``previous_ids``; by default ``ids`` is a
                whole text without padding.
        """
        ids = _as_integers(ids)
        if previous is None:
            previous, _ = previous_ids(ids, self.vocabulary_size)
        return embedding(Tensor._wrap(self.rows(ids, previous)), self.weight)

    def rows(self, ids, previous):
        """The rows of pairs: integers of the shape of ``ids`` and ``previous``, int64 or Python's.

        >>> BigramEmbedding(10, 4, most_rows=200).rows(3, previous=2)
        23
        >>> BigramEmbedding(10, 4, most_rows=50).rows(np.array([3, 4]), np.array([2, 2])).tolist()
        [10, 41]
        """
        pairs = self.vocabulary_size * previous + ids
        if self.is_exact:
            return pairs
        rows = self.weight.shape[0]
        return (pairs % 2**31 * 2654435761 % 2**32 * rows) // 2**32  # products stay below 2^63

    def extra_repr(self):
        rows, dim = self.weight.shape
        return f"{self.vocabulary_size}, {dim}, most_rows={rows}"


def previous_ids(ids, start, padding_mask=None, before=None):
    """The id before each of ``ids`` in its text, without padding.

    Args:
        ids: integers (..., length), a tensor or an array.
        start: the id before the first token of a text.
        padding_mask: booleans (..., length), True for real tokens; None if all are.
        before: the last real token before ``ids``, (...,), an array; None if ``ids`` begin the text.

    Returns:
        The previous ids, int64 (..., length), and the last real token, (...,), the ``before`` of the next tokens.

    Raises:
        ValueError: if ``before`` belongs to another number of texts.

    >>> previous, last = previous_ids(np.array([[5, 6, 7]]), start=10)
    >>> previous.tolist(), last.tolist()
    ([[10, 5, 6]], [7])
    >>> previous_ids(np.array([[5, 0, 7]]), 10, padding_mask=np.array([[True, False, True]]))[0].tolist()
    [[10, 5, 5]]
    """
    ids = _as_integers(ids)
    xp = array_namespace(ids)
    if before is None:
        before = xp.full(ids.shape[:-1], start, dtype=ids.dtype)
    if before.shape != ids.shape[:-1]:
        raise ValueError(
            f"the cache contains texts of shape {before.shape}, got new tokens of shape {ids.shape}: expected the same "
            "sequences; create a new cache for others"
        )
    ids = xp.concatenate([before[..., None], ids], axis=-1)  # (..., 1 + length)
    if padding_mask is not None:
        # The place of the last real token up to each place; the token before ``ids`` counts as real.
        place = xp.arange(ids.shape[-1])
        real = xp.concatenate([xp.ones_like(padding_mask[..., :1]), padding_mask], axis=-1)
        seen = real[..., None, :] & (place <= place[:, None])  # (..., 1 + length, 1 + length)
        latest = xp.max(xp.where(seen, place, 0), axis=-1)
        ids = xp.take_along_axis(ids, latest, axis=-1)
    return ids[..., :-1], ids[..., -1]


def _as_integers(ids):
    """An int64 array: pairs of small integers need its range."""
    ids = ids._data if isinstance(ids, Tensor) else ids
    return ids.astype(np.int64)
