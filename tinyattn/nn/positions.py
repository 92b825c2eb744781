"""Where a token stands: without positions, attention cannot tell one order of its keys from another.

Learned and sinusoidal positions are vectors added to the tokens. Rotary positions turn queries and keys, ALiBi shifts
scores; both then depend on the distance of two tokens only.
"""

import math

import numpy as np

from ..autograd import Tensor
from ..backend import array_namespace, backend_of, get_backend
from ..ops import concatenate, embedding, rotary, rotary_tables
from .initialisation import normal
from .module import Module
from .parameter import Parameter


class LearnedPositions(Module):
    """Adds a learned vector for each position, counted from 0.

    Args:
        length: how many positions there are.
        dim: length of a token's vector.

    Attributes:
        weight: (length, dim), starts as N(0, 0.02^2).

    Source: A. Radford et al., "Improving Language Understanding by Generative Pre-Training" (2018), section 4.1.

    >>> import tinyattn as ta
    >>> LearnedPositions(8, 4)(ta.zeros((2, 3, 4))).shape
    (2, 3, 4)
    """

    def __init__(self, length, dim):
        self.weight = Parameter(normal((length, dim), 0.02))

    def forward(self, x, start=0, positions=None):
        """``x``, (..., length, dim), with its positions: from ``start`` on, or the given integers, (..., length).

        Raises:
            ValueError: for positions beyond those there are.
        """
        if positions is not None:
            return x + embedding(positions, self.weight)
        end = start + x.shape[-2]
        if end > self.weight.shape[0]:
            raise ValueError(
                f"{end} positions do not fit: there are {self.weight.shape[0]} learned ones"
            )
        return x + self.weight[start:end]

    def extra_repr(self):
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}"


class SinusoidalPositions(Module):
    """Adds sines and cosines of the position, at wavelengths from 2 pi to 10000 * 2 pi; nothing is learned.

    Feature 2i of position t is sin(t / 10000^(2i/dim)), feature 2i + 1 the cosine of the same angle.

    Args:
        dim: length of a token's vector.

    Source: A. Vaswani et al., "Attention Is All You Need" (2017), section 3.5.

    >>> import tinyattn as ta
    >>> SinusoidalPositions(4)(ta.zeros((2, 4))).numpy().round(2)
    array([[0.  , 1.  , 0.  , 1.  ],
           [0.84, 0.54, 0.01, 1.  ]], dtype=float32)
    """

    def __init__(self, dim):
        self.dim = dim
        self._tables = {}  # (dtype, device) -> table

    def forward(self, x, start=0, positions=None):
        """``x``, (..., length, dim), with its positions: from ``start`` on, or the given integers, (..., length)."""
        end = start + x.shape[-2]
        if positions is not None:
            return x + Tensor._wrap(self._table(x, end)[positions])
        return x + Tensor._wrap(self._table(x, end)[start:end])

    def _table(self, like, length):
        key = (like.dtype, like.device)
        table = self._tables.get(key)
        if table is None or table.shape[0] < length:
            host = sinusoids(max(length, 64), self.dim).astype(like.dtype)
            table = self._tables[key] = get_backend(like.device).asarray(host)
        return table

    def extra_repr(self):
        return f"{self.dim}"


def sinusoids(length, dim):
    """The table of ``SinusoidalPositions``, (length, dim), float64.

    >>> sinusoids(1, 4).tolist()
    [[0.0, 1.0, 0.0, 1.0]]
    """
    wavelength = 10000.0 ** (np.arange(0, dim, 2) / dim)
    angles = np.arange(length)[:, None] / wavelength  # (length, ceil(dim / 2))
    table = np.empty((length, dim))
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles[:, : dim // 2])
    return table


class Rotary(Module):
    """Turns queries and keys by an angle that grows with the position: scores then depend on distances only.

    Args:
        head_dim: length of a head's vectors, an even number.
        base: the slowest pair of features turns once in about 2 pi base positions.

    Source: J. Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding" (2021), section 3.2.

    >>> import tinyattn as ta
    >>> Rotary(4)(ta.ones((3, 4))).shape
    (3, 4)
    """

    def __init__(self, head_dim, base=10000.0):
        if head_dim % 2:
            raise ValueError(f"rotary positions turn pairs of numbers, and a head has {head_dim}")
        self.head_dim = head_dim
        self.base = base
        self._tables = {}  # (dtype, device) -> cosines, sines

    def forward(self, x, start=0, positions=None):
        """``x``, (..., heads, length, head_dim), turned by its positions: from ``start`` on, or the given ones.

        Args:
            positions: integers (..., length) below ``start + length``, an array; the same for all heads.
        """
        end = start + x.shape[-2]
        cosine, sine = (
            table._data for table in self._cosine_and_sine(x, end)
        )  # (end or more, head_dim / 2)
        if positions is None:
            return rotary(x, cosine[start:end], sine[start:end])
        cosine, sine = cosine[positions], sine[positions]  # (..., length, head_dim / 2)
        return rotary(x, cosine[..., None, :, :], sine[..., None, :, :])

    def _cosine_and_sine(self, like, length):
        key = (like.dtype, like.device)
        tables = self._tables.get(key)
        if tables is None or tables[0].shape[0] < length:
            tables = self._tables[key] = rotary_tables(
                max(length, 64), self.head_dim, self.base, dtype=like.dtype, device=like.device
            )
        return tables

    def extra_repr(self):
        return f"{self.head_dim}, base={self.base:g}"


class ALiBi(Module):
    """Lowers each score by the distance of query and key, times a slope that differs from head to head.

    Args:
        heads: number of heads. With n heads, a power of 2, the slopes are 2^(-8/n), 2^(-16/n), ..., 2^(-8).

    Source: O. Press, N. Smith and M. Lewis, "Train Short, Test Long: Attention with Linear Biases" (2022), section 3.

    >>> ALiBi(2).slopes.tolist()
    [0.0625, 0.00390625]
    """

    def __init__(self, heads):
        if heads < 1:
            raise ValueError(
                f"ALiBi has a slope for each head: heads must be at least 1, got {heads}"
            )
        self.slopes = alibi_slopes(heads)
        self._tables = {}  # (dtype, device) -> slopes, places

    def bias(self, q, k, positions=None):
        """What is added to the scores, (..., heads, q_len, k_len): -slope |i - j|, the last query at the last key.

        Args:
            positions: of the keys, integers (..., k_len), an array of the device; 0, 1, 2, ... by default.
        """
        backend = backend_of(q._data)
        queries, keys = q.shape[-2], k.shape[-2]
        if positions is None:
            positions = backend.asarray(np.arange(keys))
        distance = abs(positions[..., None, :] - positions[..., keys - queries :, None])
        slopes, _ = self._slopes_and_places(q, keys)
        return -slopes * distance.astype(q.dtype)[..., None, :, :]

    def fold(self, q, k, scale, positions=None):
        """Queries and keys with one feature more, whose product adds the bias to the scores, for causal attention.

        Softmax does not see what is added to a whole row, so -slope (i - j) may as well be slope (j - i + i - last),
        which is a number of the query times one of the key: slope/scale and j - last.

        Args:
            q: (..., heads, q_len, head_dim).
            k: (..., heads, k_len, head_dim).
            scale: what the scores will be multiplied by.
            positions: as for ``bias``.
        """
        slopes, places = self._slopes_and_places(q, k.shape[-2])
        if positions is not None:
            places = (positions - positions[..., -1:]).astype(q.dtype)[..., None, :, None]
        xp = array_namespace(q._data)
        slopes = xp.broadcast_to(slopes / scale, (*q.shape[:-1], 1))
        places = xp.broadcast_to(places, (*k.shape[:-1], 1))
        return concatenate([q, slopes], axis=-1), concatenate([k, places], axis=-1)

    def _slopes_and_places(self, like, length):
        """The slopes, (heads, 1, 1), and the keys' places before the last one, (length, 1): 1 - length, ..., 0."""
        key = (like.dtype, like.device)
        tables = self._tables.get(key)
        if tables is None or tables[1].shape[0] < length:
            backend = backend_of(like._data)
            places = np.arange(1 - max(length, 64), 1)
            tables = self._tables[key] = (
                backend.asarray(self.slopes.astype(like.dtype)[:, None, None]),
                backend.asarray(places.astype(like.dtype)[:, None]),
            )
        slopes, places = tables
        return slopes, places[places.shape[0] - length :]

    def extra_repr(self):
        return f"{len(self.slopes)}"


def alibi_slopes(heads):
    """The slope of each head, (heads), float64: a geometric series, filled up from the next one between powers of 2.

    >>> alibi_slopes(3).tolist()
    [0.0625, 0.00390625, 0.25]
    """
    nearest = 2 ** math.floor(math.log2(heads))
    slopes = 2.0 ** (-8 / nearest * np.arange(1, nearest + 1))
    if nearest < heads:
        between = 2.0 ** (-4 / nearest * np.arange(1, 2 * nearest + 1, 2))
        slopes = np.concatenate([slopes, between[: heads - nearest]])
    return slopes
