"""Sliding-window attention with global tokens: each query sees w keys near it and the first g keys.

The sequence is cut into blocks about as long as the window. The keys that the queries of a block can see are in
that block and the adjacent ones, so that all scores of a block are one small matrix: time and memory are
O(n min(w + g, n)). A global key inside the window counts once, as a global key.

Source: I. Beltagy, M. Peters and A. Cohan, "Longformer" (2020), section 3.
"""

import math

import numpy as np

from ..autograd import primitive
from ..backend import array_namespace, backend_of
from ..ops import concatenate
from ..ops.softmax import softmax, softmax_vjp
from .blocks import join_blocks, split_into_blocks
from .dense import attention, score_scale
from .kinds import AttentionKind, Option, register_kind


def sees(query, key, causal, window, global_tokens):
    """Whether the query at one position sees the key at another; positions are integer arrays that broadcast.

    A query sees ``window`` keys. If causal, they are the latest ones, including its own; otherwise (window - 1) // 2
    of them come after its own and the rest before. All queries see the first ``global_tokens`` keys; if not causal,
    the queries at these positions see all keys.

    >>> sees(np.array(4), np.arange(9), causal=False, window=4, global_tokens=1).astype(int)
    array([1, 0, 1, 1, 1, 1, 0, 0, 0])
    """
    after = 0 if causal else (window - 1) // 2
    distance = query - key
    near = (distance < window - after) & (distance >= -after)
    if causal:
        return (near | (key < global_tokens)) & (distance >= 0)
    return near | (key < global_tokens) | (query < global_tokens)


def visible_in_window(queries, keys, causal, window, global_tokens):
    """The visibility rule of ``kind="window"``: see ``AttentionKind``.

    >>> visible_in_window(3, 3, causal=True, window=2, global_tokens=0).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [0, 1, 1]])
    """
    query, key = np.arange(keys - queries, keys)[:, None], np.arange(keys)
    return sees(query, key, causal, window, global_tokens)


class Band:
    """The layout of the scores as a block-banded matrix: the blocks of a sequence, and the keys in reach of each block.

    If blocks would save nothing, as for a window as long as the sequence, the sequence is one block.

    Attributes:
        blocks, block: number of blocks, and number of queries in each.
        shared: number of global keys, which are compared with the queries of every block.
        reach: number of keys that are compared with the queries of a block: the shared ones and those of the
            neighboring blocks.
    """

    def __init__(self, length, window, global_tokens, causal):
        rule = {"causal": causal, "window": window, "global_tokens": global_tokens}
        after = 0 if causal else (window - 1) // 2
        block = max(window - 1 - after, after, 1)
        neighbors = (-1, 0, 1) if after else (-1, 0)  # offsets of the blocks in reach
        scores = -(-length // block) * block * (global_tokens + len(neighbors) * block)
        if scores >= length**2:
            block, neighbors, global_tokens = length, (0,), 0
        self.length, self.block, self.neighbors = length, block, neighbors
        self.blocks = -(-length // block)
        self.shared = global_tokens
        self.reach = global_tokens + len(neighbors) * block

        start = self.block * np.arange(self.blocks).reshape(-1, 1, 1)
        query = start + np.arange(self.block).reshape(-1, 1)  # (blocks, block, 1)
        local = start + self.neighbors[0] * self.block + np.arange(self.reach - self.shared)
        # Position ``length`` marks keys outside the sequence and global keys, which count once.
        local = np.where((local >= self.shared) & (local < length), local, length)
        shared = np.broadcast_to(np.arange(self.shared), (self.blocks, 1, self.shared))
        key = np.concatenate([shared, local], axis=-1)  # (blocks, 1, reach)
        # Padding queries see nothing: an infinite key would make their weights NaN, and with them all gradients.
        exists = (query < length) & (key < length)
        self._mask = exists & sees(query, key, **rule)

    def mask(self, key_mask, like):
        """The keys in reach that each query sees: booleans that broadcast to (..., blocks, block, reach).

        Args:
            key_mask: boolean (..., 1, length), True where a key may be attended to, or None.
            like: an array on the device of the result.
        """
        mask = backend_of(like).asarray(self._mask)
        if key_mask is None:
            return mask
        keys = self.in_reach(key_mask.swapaxes(-1, -2))  # (..., blocks, reach, 1)
        return mask & keys.swapaxes(-1, -2)

    def in_reach(self, x):
        """Gather the rows of the keys in reach: (..., length, dim) to (..., blocks, reach, dim)."""
        xp = array_namespace(x)
        blocks = split_into_blocks(x, self.block)
        parts = [_shifted(blocks, -offset) for offset in self.neighbors]
        if self.shared:
            shared = x[..., None, : self.shared, :]
            shape = (*blocks.shape[:-2], self.shared, x.shape[-1])
            parts.insert(0, xp.broadcast_to(shared, shape))
        return xp.concatenate(parts, axis=-2)

    def from_reach(self, x):
        """Scatter-add, the adjoint of ``in_reach``: (..., blocks, reach, dim) to (..., length, dim)."""
        xp = array_namespace(x)
        parts = []
        for number, offset in enumerate(self.neighbors):
            start = self.shared + number * self.block
            parts.append(_shifted(x[..., start : start + self.block, :], offset))
        total = join_blocks(sum(parts[1:], parts[0]), self.length)
        if not self.shared:
            return total
        shared = xp.sum(x[..., : self.shared, :], axis=-3)  # (..., global_tokens, dim)
        zeros = xp.zeros_like(total[..., self.shared :, :])
        return total + xp.concatenate([shared, zeros], axis=-2)


def _shifted(blocks, by):
    """The blocks shifted ``by`` places along their axis (-3), filled up with zeros."""
    if by == 0:
        return blocks
    xp = array_namespace(blocks)
    zeros = xp.zeros_like(blocks[..., :1, :, :])
    if by > 0:
        return xp.concatenate([zeros, blocks[..., :-1, :, :]], axis=-3)
    return xp.concatenate([blocks[..., 1:, :, :], zeros], axis=-3)


@primitive
def window_attention(q, k, v, key_mask, /, *, window, global_tokens, causal, scale):
    """Attention of each query over the keys in its window and the global keys, block by block (see ``Band``).

    With P the softmax of the scores S = scale q k^T over the keys in reach, out = P V.

    Backward, as for dense attention, with each product restricted to the band:
        dV = P^T g,  dP = g V^T,  dS = P (dP - row sum of P dP),  dQ = scale dS K,  dK = scale dS^T Q.

    Args:
        q, k, v: (..., length, head_dim), all of the same length.
        key_mask: boolean (..., 1, length), True where a key may be attended to, or None.
        window, global_tokens, causal: see ``sees``.
        scale: the factor of the scores.
    """
    band = Band(q.shape[-2], window, global_tokens, causal)
    return join_blocks(_weights(band, q, k, key_mask, scale) @ band.in_reach(v), band.length)


@window_attention.vjp("q")
def window_attention_vjp_q(g, _out, q, k, v, key_mask, *, window, global_tokens, causal, scale):
    band = Band(q.shape[-2], window, global_tokens, causal)
    ds = _score_cotangent(band, g, q, k, v, key_mask, scale)
    return join_blocks(ds @ band.in_reach(k), band.length) * scale


@window_attention.vjp("k")
def window_attention_vjp_k(g, _out, q, k, v, key_mask, *, window, global_tokens, causal, scale):
    band = Band(q.shape[-2], window, global_tokens, causal)
    ds = _score_cotangent(band, g, q, k, v, key_mask, scale)
    return band.from_reach(ds.swapaxes(-1, -2) @ split_into_blocks(q, band.block)) * scale


@window_attention.vjp("v")
def window_attention_vjp_v(g, _out, q, k, _v, key_mask, *, window, global_tokens, causal, scale):
    band = Band(q.shape[-2], window, global_tokens, causal)
    weights = _weights(band, q, k, key_mask, scale)
    return band.from_reach(weights.swapaxes(-1, -2) @ split_into_blocks(g, band.block))


def _weights(band, q, k, key_mask, scale):
    """P, (..., blocks, block, reach)."""
    scores = split_into_blocks(q * scale, band.block) @ band.in_reach(k).swapaxes(-1, -2)
    mask = band.mask(getattr(key_mask, "_data", key_mask), getattr(q, "_data", q))
    return softmax.rule(array_namespace(scores).where(mask, scores, -math.inf))


def _score_cotangent(band, g, q, k, v, key_mask, scale):
    """dS, (..., blocks, block, reach), from ``g``, the cotangent of the output, (..., length, head_dim)."""
    weights = _weights(band, q, k, key_mask, scale)
    dweights = split_into_blocks(g, band.block) @ band.in_reach(v).swapaxes(-1, -2)
    return softmax_vjp(dweights, weights, None)


def sliding_window_attention(q, k, v, *, mask, causal, scale, window, global_tokens):
    """The function of ``kind="window"``: each query sees the keys near it and the first ``global_tokens`` keys.

    Args:
        q: (..., queries, head_dim); k, v: (..., keys, head_dim).
        mask: a padding mask, boolean (..., 1, keys), True = may attend, the same for all queries.
        causal, window, global_tokens: see ``sees``. Fewer queries than keys are allowed only if causal.
        scale: the factor of the scores, by default 1 / sqrt(head_dim).

    Returns:
        (..., queries, head_dim); 0 for a query without visible keys.

    Raises:
        ValueError: if the number of queries does not match the number of keys.

    >>> import tinyattn as ta
    >>> q, v = ta.zeros((1, 4, 1)), ta.tensor([[[1.0], [2.0], [3.0], [4.0]]])
    >>> ta.scaled_dot_product_attention(q, q, v, causal=True, kind="window", window=2).tolist()
    [[[1.0], [1.5], [2.5], [3.5]]]
    """
    queries, keys = q.shape[-2], k.shape[-2]
    scale = score_scale(q, scale)
    if queries < keys and causal:
        return _last_queries(q, k, v, mask, scale, window, global_tokens)
    if queries != keys:
        raise ValueError(
            f"window attention got {queries} queries and {keys} keys: expected as many queries as keys, or fewer "
            "if causal"
        )
    out = window_attention(
        q, k, v, mask, window=window, global_tokens=global_tokens, causal=causal, scale=scale
    )
    if causal or not global_tokens:
        return out
    # The global queries see all keys, not only those in reach: dense attention replaces their rows.
    global_out = attention(q[..., :global_tokens, :], k, v, mask, causal=False, scale=scale)
    return concatenate([global_out, out[..., global_tokens:, :]], axis=-2)


def _last_queries(q, k, v, mask, scale, window, global_tokens):
    """Attention of the last queries of a causal sequence, as in decoding with a cache; reads only visible keys."""
    queries, keys = q.shape[-2], k.shape[-2]
    start = max(keys - queries - window + 1, 0)
    shared = min(global_tokens, start)
    seen = np.concatenate([np.arange(shared), np.arange(start, keys)])
    query = np.arange(keys - queries, keys)[:, None]
    backend = backend_of(q._data)
    allowed = backend.asarray(sees(query, seen, True, window, global_tokens))
    if mask is not None:
        allowed = allowed & mask[..., backend.asarray(seen)]
    if start > 0:
        k = concatenate([k[..., :shared, :], k[..., start:, :]], axis=-2)
        v = concatenate([v[..., :shared, :], v[..., start:, :]], axis=-2)
    return attention(q, k, v, allowed, causal=False, scale=scale)


WINDOW = AttentionKind(
    "window",
    sliding_window_attention,
    options={
        "window": Option(32, "Keys that a query sees, including its own [tokens].", 1),
        "global_tokens": Option(0, "First tokens, which every query sees [tokens].", 0),
    },
    visible=visible_in_window,
    unsupported=frozenset({"query_mask", "dropout"}),
    check_options={"window": 3, "global_tokens": 1},
)

register_kind(WINDOW)
