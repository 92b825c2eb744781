"""Position encodings: attention itself does not depend on the order of its keys.

Learned and sinusoidal positions are vectors added to the tokens. Rotary positions rotate queries and keys, and ALiBi
adds a bias to the scores; with both, scores depend on positions only through the distance of two tokens.
"""

import math

import numpy as np

from ..autograd import Tensor
from ..backend import array_namespace, backend_of
from ..ops import concatenate, embedding, rotary, rotary_tables
from .initialization import normal
from .module import Module
from .parameter import Parameter


class _TableCache:
    """Tables over the positions 0, 1, 2, ..., one for each dtype and device, recomputed when a longer one is needed."""

    def __init__(self):
        self._tables = {}  # (dtype, device) -> (length, table)

    def get(self, like, length, make):
        """The table for the dtype and device of ``like``; ``make(length)`` computes one, which may be longer."""
        key = (like.dtype, like.device)
        available, table = self._tables.get(key, (0, None))
        if available < length:
            length = max(length, 64)
            table = make(length)
            self._tables[key] = length, table
        return table


class LearnedPositions(Module):
    """Add a learned vector for each position, counted from 0.

    Args:
        length: number of positions.
        dim: length of a token's vector.

    Attributes:
        weight: (length, dim), initialized with N(0, 0.02^2).

    Source: A. Radford et al., "Improving Language Understanding by Generative Pre-Training" (2018), section 4.1.

    >>> import tinyattn as ta
    >>> LearnedPositions(8, 4)(ta.zeros((2, 3, 4))).shape
    (2, 3, 4)
    """

    def __init__(self, length, dim):
        self.weight = Parameter(normal((length, dim), 0.02))

    def forward(self, x, start=0, positions=None):
        """Add positions to ``x``, (..., length, dim): ``start``, start + 1, ..., or the given integers, (..., length).

        Raises:
            ValueError: for more positions than were learned.
        """
        if positions is not None:
            return x + embedding(positions, self.weight)
        end = start + x.shape[-2]
        if end > self.weight.shape[0]:
            raise ValueError(
                f"{end} positions do not fit: expected at most {self.weight.shape[0]}, the number of learned positions"
            )
        return x + self.weight[start:end]

    def extra_repr(self):
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}"


class SinusoidalPositions(Module):
    """Add sines and cosines of the position, with wavelengths from 2 pi to 10000 * 2 pi; nothing is learned.

    Feature 2i of position t is sin(t / 10000^(2i/dim)), and feature 2i + 1 is the cosine of the same angle.

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
        self._tables = _TableCache()

    def forward(self, x, start=0, positions=None):
        """Add positions to ``x``, (..., length, dim): ``start``, start + 1, ..., or given integers, (..., length)."""

        def make(length):
            return backend_of(x._data).asarray(sinusoids(length, self.dim).astype(x.dtype))

        end = start + x.shape[-2]
        table = self._tables.get(x, end, make)
        return x + Tensor._wrap(table[start:end] if positions is None else table[positions])

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
    """Rotate queries and keys by angles proportional to the position, so that scores depend only on distances.

    Args:
        head_dim: length of a head's vectors, an even number.
        base: base of the wavelengths; the longest one is about 2 pi base positions.

    Source: J. Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding" (2021), section 3.2.

    >>> import tinyattn as ta
    >>> Rotary(4)(ta.ones((3, 4))).shape
    (3, 4)
    """

    def __init__(self, head_dim, base=10000.0):
        if head_dim % 2:
            raise ValueError(f"rotary positions need an even head_dim, got {head_dim}")
        self.head_dim = head_dim
        self.base = base
        self._tables = _TableCache()

    def forward(self, x, start=0, positions=None):
        """Rotate ``x``, (..., heads, length, head_dim), by the positions ``start``, start + 1, ..., or the given ones.

        Args:
            positions: integers (..., length) below ``start + length``, an array; the same for all heads.
        """
        end = start + x.shape[-2]
        cosine, sine = self.tables(x, end)
        if positions is None:
            # As tensors: arrays could be changed by the caller, and would be copied.
            rows = [Tensor._wrap(table[start:end]) for table in (cosine, sine)]
            return rotary(x, *rows)
        cosine, sine = cosine[positions], sine[positions]  # (..., length, head_dim / 2)
        return rotary(x, cosine[..., None, :, :], sine[..., None, :, :])

    def tables(self, like, length):
        """Cosines and sines of at least ``length`` positions, arrays (length or more, head_dim / 2).

        Args:
            like: a tensor of the dtype and device.
        """

        def make(length):
            tables = rotary_tables(
                length, self.head_dim, self.base, dtype=like.dtype, device=like.device
            )
            return [table._data for table in tables]

        return self._tables.get(like, length, make)

    def extra_repr(self):
        return f"{self.head_dim}, base={self.base:g}"


class ALiBi(Module):
    """Attention with linear biases: subtract the distance of query and key, times a slope per head, from each score.

    Args:
        heads: number of heads. For n heads, a power of 2, the slopes are 2^(-8/n), 2^(-16/n), ..., 2^(-8).

    Source: O. Press, N. Smith and M. Lewis, "Train Short, Test Long: Attention with Linear Biases" (2022), section 3.

    >>> ALiBi(2).slopes.tolist()
    [0.0625, 0.00390625]
    """

    def __init__(self, heads):
        if heads < 1:
            raise ValueError(f"ALiBi: heads must be at least 1, got {heads}")
        self.slopes = alibi_slopes(heads)
        self._tables = _TableCache()

    def bias(self, q, k, positions=None):
        """The bias of the scores, (..., heads, q_len, k_len): -slope |i - j|, with the last query at the last key.

        Args:
            positions: positions of the keys, integers (..., k_len), an array on the device; by default 0, 1, 2, ...
        """
        backend = backend_of(q._data)
        queries, keys = q.shape[-2], k.shape[-2]
        if positions is None:
            positions = backend.asarray(np.arange(keys))
        distance = abs(positions[..., None, :] - positions[..., keys - queries :, None])
        slopes, _ = self._slopes_and_offsets(q, keys)
        return -slopes * distance.astype(q.dtype)[..., None, :, :]

    def fold(self, q, k, scale, positions=None):
        """Extend queries and keys by one feature whose product adds the bias to the scores, for causal attention.

        Adding a constant to a row of scores does not change the softmax. Therefore -slope (i - j) can be replaced by
        slope (j - last), the product of a feature of the query, slope/scale, and one of the key, j - last.

        Args:
            q: (..., heads, q_len, head_dim).
            k: (..., heads, k_len, head_dim).
            scale: the factor of the scores.
            positions: as for ``bias``.
        """
        slopes, offsets = self._slopes_and_offsets(q, k.shape[-2])
        if positions is not None:
            offsets = (positions - positions[..., -1:]).astype(q.dtype)[..., None, :, None]
        xp = array_namespace(q._data)
        slopes = xp.broadcast_to(slopes / scale, (*q.shape[:-1], 1))
        offsets = xp.broadcast_to(offsets, (*k.shape[:-1], 1))
        return concatenate([q, slopes], axis=-1), concatenate([k, offsets], axis=-1)

    def _slopes_and_offsets(self, like, length):
        """The slopes, (heads, 1, 1), and the keys' offsets from the last one, (length, 1): 1 - length, ..., 0."""
        asarray = backend_of(like._data).asarray

        def make(length):
            offsets = np.arange(1 - length, 1)[:, None]
            slopes = self.slopes[:, None, None]
            return asarray(slopes.astype(like.dtype)), asarray(offsets.astype(like.dtype))

        slopes, offsets = self._tables.get(like, length, make)
        return slopes, offsets[offsets.shape[0] - length :]

    def extra_repr(self):
        return f"{len(self.slopes)}"


def alibi_slopes(heads):
    """The slope of each head, (heads,), float64: a geometric series; between powers of 2, extended by the next series.

    >>> alibi_slopes(3).tolist()
    [0.0625, 0.00390625, 0.25]
    """
    nearest = 2 ** math.floor(math.log2(heads))
    slopes = 2.0 ** (-8 / nearest * np.arange(1, nearest + 1))
    if nearest < heads:
        between = 2.0 ** (-4 / nearest * np.arange(1, 2 * nearest + 1, 2))
        slopes = np.concatenate([slopes, between[: heads - nearest]])
    return slopes
