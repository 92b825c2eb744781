"""Scaled dot-product attention in tiles: scores stay in cache, and masked tiles are skipped.

Trade-offs:

- In short sequences, a head is one tile. Its weights are saved, which is faster than recomputing them.
- In long sequences, a tile of queries is combined only with the keys that the causal mask allows: in large tiles where
  all are allowed, in smaller ones along the diagonal. No array of (length, length) is stored: backward recomputes the
  scores. The division by the sum of a row is applied to the output (length, head_dim), not to the scores; in backward,
  to the cotangent of the output.
- The maximum is usually subtracted to prevent overflow. If all scores are within 60, exp neither overflows nor
  underflows, and the maximum is not computed. In short sequences this is checked by the sums of the rows, neither tiny
  nor huge. In long ones it follows from the Cauchy-Schwarz inequality, |q . k| <= |q| |k|, and partial sums need no
  rescaling. Otherwise a running maximum is kept over the tiles.
- If one key has nearly all the weight, the cotangent of its score is less than the rounding error of the terms it is a
  difference of. Short sequences compute it as the rule does, relative to that key. In long ones this would need another
  pass over the tiles to find the key (measured: 8 to 28 % more time), and the error of the score's cotangent is a
  rounding error of the weight's cotangent.
- Keys and values are multiplied by the scale while they are transposed, which needs no additional pass over memory.

Source: T. Dao et al., "FlashAttention" (2022), algorithms 1 and 4; M. Milakov and N. Gimelshein, "Online normalizer
calculation for softmax" (2018).
"""

import functools
import math

import numpy as np

from ...autograd import register_kernel
from ...backend.counter import keep_mask
from ...backend.pool import empty
from .blocks import as_rows, is_floating, row_sums
from .products import multiply
from .softmax import exact_rows

_SHORT = 128  # up to this many queries and keys, a head is one tile
_QUERY_TILE = 256
_KEY_TILE = 384
_DIAGONAL_TILE = 64  # queries along the diagonal; small, as masked scores are computed in vain
# Size of the scores of the heads in a group. Two such arrays fit the cache; for short heads, fewer calls matter more.
_GROUP_BYTES = 6 << 16
_SHORT_GROUP_BYTES = 12 << 16
_SAFE_EXPONENT = 60.0
_SMALLEST_SUM, _LARGEST_SUM = 1e-26, 1e26  # exp(-60) and exp(60)
_ALIGNED = 16  # slices of a row that start at a multiple of this are processed at twice the speed


def forward(q, k, v, mask, *, causal=False, scale=None, dropout_p=0.0, dropout_key=None):
    if dropout_p >= 1 or q.ndim < 2 or q.ndim > 4 or not is_floating(q, k, v):
        return NotImplemented
    if k.shape[:-2] != q.shape[:-2] or v.shape[:-1] != k.shape[:-1] or k.shape[-1] != q.shape[-1]:
        return NotImplemented
    if q.size == 0 or k.size == 0 or v.size == 0:
        return NotImplemented
    if mask is not None:
        if type(mask) is not np.ndarray or mask.dtype != bool or mask.ndim > q.ndim:
            return NotImplemented
        mask = np.broadcast_to(mask, q.shape[:-1] + (k.shape[-2],))
    if scale is None:
        scale = 1.0 / math.sqrt(q.shape[-1])
    kind = _Short if max(q.shape[-2], k.shape[-2]) <= _SHORT else _Tiled
    out = empty_in_layout_of(q, v.shape[-1])
    call = kind(q, k, v, mask, out, causal, float(scale), dropout_p, dropout_key)
    for group in call.groups:
        if not call.forward(group):
            return NotImplemented  # the rule handles infinite scores
    return out, call


def backward(g, call):
    gradients = [empty_in_layout_of(array) for array in (call.q, call.k, call.v)]
    g = _four_axes(g)
    for group in call.groups:
        call.backward(group, g[group], *(gradient[group] for gradient in gradients))
    return (*(gradient.reshape(call.shape + gradient.shape[-2:]) for gradient in gradients), None)


def empty_in_layout_of(array, width=None):
    """An empty array with the memory layout of ``array``.

    Projections are views (batch, heads, length, head_dim) of memory (batch, length, heads, head_dim); the result has
    the same layout, so that heads are joined without a copy.
    """
    shape = array.shape[:-1] + (array.shape[-1] if width is None else width,)
    if array.ndim >= 3 and array.strides[-3] < array.strides[-2]:
        swapped = shape[:-3] + (shape[-2], shape[-3], shape[-1])
        return empty(swapped, array.dtype).swapaxes(-3, -2)
    return empty(shape, array.dtype)


def _four_axes(array):
    """(length, width) or (heads, length, width) as (1, heads, length, width)."""
    return array.reshape((1,) * (4 - array.ndim) + array.shape)


def _transposed(array, scale):
    """``scale`` times the array with its last two axes swapped, contiguous in memory, for faster products."""
    array = array.swapaxes(-1, -2)
    return np.multiply(array, scale, out=empty(array.shape, array.dtype))


@functools.lru_cache(maxsize=256)
def _triangle(rows, columns, diagonal, dtype):
    """Ones where column <= row + diagonal, zeros elsewhere."""
    return np.tri(rows, columns, diagonal, dtype)


class _Call:
    """One call of attention: the inputs as (batch, heads, length, width), and the residuals for backward."""

    def __init__(self, q, k, v, mask, out, causal, scale, dropout_p, dropout_key):
        self.shape = q.shape[:-2]
        self.q, self.k, self.v, self.out = (_four_axes(array) for array in (q, k, v, out))
        self.mask = None if mask is None else _four_axes(mask)
        self.causal = causal
        self.scale = scale
        self.dropout_p = dropout_p
        self.dropout_key = dropout_key
        self.queries, self.keys = self.q.shape[2], self.k.shape[2]
        # Causal: query i attends to keys up to i + offset, so that the last query attends to the last key.
        self.offset = self.keys - self.queries

    def _groups(self, height, width, group_bytes):
        """Groups of heads to process together, as (slice of the batch, slice of the heads), for a tile size."""
        batch, heads = self.q.shape[:2]
        together = max(1, group_bytes // (height * width * self.q.itemsize))
        if together >= heads:
            step = together // heads
            return [(slice(b, b + step), slice(None)) for b in range(0, batch, step)]
        return [
            (slice(b, b + 1), slice(h, h + together))
            for b in range(batch)
            for h in range(0, heads, together)
        ]

    def _hide(self, weights, group, rows, columns):
        """Multiply exponentials by zero where a query may not attend to a key."""
        if self.causal:
            diagonal = rows.start + self.offset - columns.start
            start = max(diagonal + 1, 0) // _ALIGNED * _ALIGNED  # all queries attend to keys before
            height, width = weights.shape[-2:]
            if start < width:
                weights[..., start:] *= _triangle(
                    height, width - start, diagonal - start, weights.dtype
                )
        if self.mask is not None:
            weights *= self.mask[group][..., rows, columns]

    def _hide_scores(self, scores, group, rows, columns):
        """Set scores to -inf where a query may not attend to a key, also where they are NaN or inf."""
        if self.causal:
            diagonal = rows.start + self.offset - columns.start
            if diagonal + 1 < scores.shape[-1]:
                visible = _triangle(*scores.shape[-2:], diagonal, np.dtype(bool))
                np.copyto(scores, -np.inf, where=~visible)
        if self.mask is not None:
            np.copyto(scores, -np.inf, where=~self.mask[group][..., rows, columns])

    def _dropped(self, weights, group, rows, columns):
        """The dropout factors 0 and 1 / (1 - p) of a tile, by index in all weights; None without dropout."""
        if not self.dropout_p:
            return None
        batch, heads = self.q.shape[:2]
        numbers = np.arange(batch * heads, dtype=np.uint32).reshape(batch, heads, 1, 1)[group]
        row = np.arange(rows.start, rows.stop, dtype=np.uint32)[:, None]
        column = np.arange(columns.start, columns.stop, dtype=np.uint32)
        counter = (numbers * np.uint32(self.queries) + row) * np.uint32(self.keys) + column
        factors = keep_mask(counter, self.dropout_key, self.dropout_p).astype(weights.dtype)
        factors *= 1 / (1 - self.dropout_p)
        return factors


class _Short(_Call):
    """A head is one tile; its weights are saved."""

    def __init__(self, q, k, v, *rest):
        super().__init__(q, k, v, *rest)
        self.groups = self._groups(self.queries, self.keys, _SHORT_GROUP_BYTES)
        self.weights = empty(self.q.shape[:3] + (self.keys,), q.dtype)
        self.whole = slice(0, self.queries), slice(0, self.keys)

    def forward(self, group):
        """Compute the output of a group of heads; returns False if a score is infinite."""
        weights = self.weights[group]
        q, k_transposed = self.q[group], _transposed(self.k[group], self.scale)
        multiply(q, k_transposed, weights)
        np.exp(weights, out=weights)
        self._hide(weights, group, *self.whole)
        total = row_sums(weights)
        if not (_SMALLEST_SUM <= total.min() and total.max() <= _LARGEST_SUM):  # also for NaN
            multiply(q, k_transposed, weights)
            if np.isinf(weights).any():
                return False
            self._hide_scores(weights, group, *self.whole)
            _exponentials(weights, np.full(weights.shape[:-1] + (1,), -np.inf, weights.dtype))
            total = row_sums(weights)
            total[total == 0] = np.inf  # rows without allowed keys: output and gradient are 0
        weights *= np.reciprocal(total, out=total)[..., None]
        factors = self._dropped(weights, group, *self.whole)
        if factors is not None:
            weights = np.multiply(weights, factors, out=factors)
        multiply(weights, self.v[group], self.out[group])
        return True

    def backward(self, group, g, dq, dk, dv):
        """Write the cotangents of a group of heads."""
        weights = self.weights[group]
        d_scores = empty(weights.shape, weights.dtype)
        delta = np.vecdot(g, self.out[group])[..., None]
        delta *= self.scale
        multiply(g, _transposed(self.v[group], self.scale), d_scores)
        factors = self._dropped(weights, group, *self.whole)
        if factors is not None:
            d_scores *= factors
        rows, exact = exact_rows(as_rows(d_scores), as_rows(weights))
        d_scores -= delta
        as_rows(d_scores)[rows] = exact
        d_scores *= weights  # the cotangent of the unscaled scores
        if factors is not None:
            weights = np.multiply(weights, factors, out=factors)
        multiply(weights.swapaxes(-1, -2), g, dv)
        multiply(d_scores.swapaxes(-1, -2), self.q[group], dk)
        multiply(d_scores, self.k[group], dq)


class _Tiled(_Call):
    """Tiles of queries and keys; only sums and maxima of the scores are saved."""

    def __init__(self, q, k, v, *rest):
        super().__init__(q, k, v, *rest)
        tile = min(_DIAGONAL_TILE, self.queries), min(_KEY_TILE, self.keys)
        self.groups = self._groups(*tile, _GROUP_BYTES)
        longest = math.sqrt(float(np.vecdot(q, q).max()) * float(np.vecdot(k, k).max()))
        self.finite = longest != math.inf
        self.bounded = abs(self.scale) * longest <= _SAFE_EXPONENT  # False for NaN
        rows = self.q.shape[:3] + (1,)
        self.inverse_sum = np.empty(rows, q.dtype)
        self.maximum = None if self.bounded else np.full(rows, -np.inf, q.dtype)

    def _tiles(self):
        """Slices of queries and keys that cover all allowed pairs: large tiles, and small ones along the diagonal."""
        for start in range(0, self.queries, _QUERY_TILE):
            stop = min(start + _QUERY_TILE, self.queries)
            seen_by_all = max(start + self.offset, 0) if self.causal else self.keys
            for column in range(0, seen_by_all, _KEY_TILE):
                yield slice(start, stop), slice(column, min(column + _KEY_TILE, seen_by_all))
            if self.causal:
                for row in range(start, stop, _DIAGONAL_TILE):
                    end = min(row + _DIAGONAL_TILE, stop)
                    if end + self.offset > seen_by_all:
                        yield slice(row, end), slice(seen_by_all, end + self.offset)

    def forward(self, group):
        """Compute the output of a group of heads; returns False if a score may be infinite."""
        if not self.finite:
            return False
        q, v, out = self.q[group], self.v[group], self.out[group]
        k_transposed = _transposed(self.k[group], self.scale)
        out[...] = 0
        total = np.zeros(out.shape[:-1] + (1,), out.dtype)
        scratch = _Scratch(q)
        for rows, columns in self._tiles():
            height, width = rows.stop - rows.start, columns.stop - columns.start
            weights = scratch.take(0, height, width)
            multiply(q[..., rows, :], k_transposed[..., columns], weights)
            if self.bounded:
                np.exp(weights, out=weights)
                self._hide(weights, group, rows, columns)
            else:
                self._hide_scores(weights, group, rows, columns)
                rescale = _exponentials(weights, self.maximum[group][..., rows, :])
                total[..., rows, :] *= rescale
                out[..., rows, :] *= rescale
            total[..., rows, 0] += row_sums(weights)
            factors = self._dropped(weights, group, rows, columns)
            if factors is not None:
                weights = np.multiply(weights, factors, out=factors)
            part = scratch.take(2, height, v.shape[-1])
            out[..., rows, :] += multiply(weights, v[..., columns, :], part)
        total[total == 0] = np.inf  # rows without allowed keys: output and gradient are 0
        out *= np.reciprocal(total, out=self.inverse_sum[group])
        if not self.bounded:
            maximum = self.maximum[group]
            maximum[np.isneginf(maximum)] = 0
        return True

    def backward(self, group, g, dq, dk, dv):
        """Write the cotangents of a group of heads."""
        q, k, v = self.q[group], self.k[group], self.v[group]
        k_transposed, v_transposed = _transposed(k, self.scale), _transposed(v, self.scale)
        # The weights are w = e / sum: e is used in place of w, with the cotangent divided by the sum.
        g = np.multiply(g, self.inverse_sum[group], out=empty(g.shape, g.dtype))
        delta = np.vecdot(g, self.out[group])[..., None]  # sum_j w_ij (g . v_j), divided by the sum
        delta *= self.scale
        scratch = _Scratch(q)
        for gradient in (dq, dk, dv):
            gradient[...] = 0
        for rows, columns in self._tiles():
            height, width = rows.stop - rows.start, columns.stop - columns.start
            g_tile, q_tile = g[..., rows, :], q[..., rows, :]
            weights = scratch.take(0, height, width)
            multiply(q_tile, k_transposed[..., columns], weights)
            if self.bounded:
                np.exp(weights, out=weights)
                self._hide(weights, group, rows, columns)
            else:
                self._hide_scores(weights, group, rows, columns)
                weights -= self.maximum[group][..., rows, :]
                np.exp(weights, out=weights)
            d_scores = scratch.take(1, height, width)
            multiply(g_tile, v_transposed[..., columns], d_scores)
            factors = self._dropped(weights, group, rows, columns)
            if factors is not None:
                d_scores *= factors
            d_scores -= delta[..., rows, :]
            d_scores *= weights  # the cotangent of the unscaled scores
            if factors is not None:
                weights = np.multiply(weights, factors, out=factors)
            part = scratch.take(2, width, v.shape[-1])
            dv[..., columns, :] += multiply(weights.swapaxes(-1, -2), g_tile, part)
            part = scratch.take(2, width, k.shape[-1])
            dk[..., columns, :] += multiply(d_scores.swapaxes(-1, -2), q_tile, part)
            part = scratch.take(2, height, k.shape[-1])
            dq[..., rows, :] += multiply(d_scores, k[..., columns, :], part)


class _Scratch:
    """Reusable buffers for three tiles of a group of heads, contiguous for any tile size."""

    def __init__(self, q):
        self._lead = q.shape[:2]
        self._dtype = q.dtype
        self._memory = [None, None, None]

    def take(self, number, height, width):
        count = self._lead[0] * self._lead[1] * height * width
        memory = self._memory[number]
        if memory is None or memory.size < count:
            memory = self._memory[number] = empty((count,), self._dtype)
        return memory[:count].reshape(self._lead + (height, width))


def _exponentials(scores, maximum):
    """Update the running maximum and compute exp(scores - maximum), both in-place; returns the factor of older sums."""
    rescale = maximum.copy()
    np.maximum(maximum, scores.max(axis=-1, keepdims=True), out=maximum)
    finite = np.where(np.isneginf(maximum), 0, maximum)  # no allowed key so far: exp(-inf - 0) is 0
    scores -= finite
    np.exp(scores, out=scores)
    rescale -= finite
    return np.exp(rescale, out=rescale)


register_kernel("attention", "cpu", forward, backward)
