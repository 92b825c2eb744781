"""Sliding-window attention with global tokens: each query sees w neighbours and g tokens that everyone sees.

The sequence is cut into blocks as long as the window reaches. The keys that the queries of a block can see lie in
that block and the ones beside it, so that all scores of a block are one small matrix: cost and memory are
O(n (w + g)). A global key that also lies inside the window is counted once, as a global one.

Source: I. Beltagy, M. Peters and A. Cohan, "Longformer" (2020), section 3.
"""

import math

import numpy as np

from ..autograd import primitive
from ..backend import array_namespace, backend_of
from ..ops import concatenate
from .dense import attention


class Band:
    """Which keys the queries of each block see, for one length and one window: shapes and boolean masks."""

    def __init__(self, length, window, global_tokens, causal):
        self.length = length
        self.global_tokens = min(global_tokens, length)
        self.before = window - 1 if causal else window // 2  # how far back a query sees
        self.after = 0 if causal else window // 2
        self.block = max(self.before, 1)
        self.blocks = -(-length // self.block)
        self.padded = self.blocks * self.block
        self.neighbours = (-1, 0) if causal else (-1, 0, 1)  # which blocks lie in reach

        query = np.arange(self.padded).reshape(self.blocks, self.block, 1)
        start = (np.arange(self.blocks) * self.block).reshape(-1, 1, 1)
        key = start + np.arange(-self.block, (len(self.neighbours) - 1) * self.block)
        in_reach = (key >= query - self.before) & (key <= query + self.after)
        exists = (key >= self.global_tokens) & (key < length)  # global keys are counted apart
        self.local_mask = in_reach & exists  # (blocks, block, neighbours * block)
        global_key = np.arange(self.global_tokens)
        self.global_mask = np.broadcast_to(
            (global_key <= query) | (not causal), (self.blocks, self.block, self.global_tokens)
        )

    def mask(self, key_mask, like):
        """The masks of global and local keys side by side, with the keys' own mask taken in."""
        backend = backend_of(like)
        mask = backend.asarray(np.concatenate([self.global_mask, self.local_mask], axis=-1))
        if key_mask is None:
            return mask
        xp = array_namespace(like)
        keys = xp.swapaxes(key_mask, -1, -2)  # (..., length, 1)
        local = xp.swapaxes(self.in_reach(keys), -1, -2)  # (..., blocks, 1, neighbours * block)
        everywhere = key_mask[..., None, :, : self.global_tokens]  # (..., 1, 1, global_tokens)
        shape = (*local.shape[:-1], self.global_tokens)
        return mask & xp.concatenate([xp.broadcast_to(everywhere, shape), local], axis=-1)

    def in_blocks(self, x):
        """(..., length, dim) as (..., blocks, block, dim), with zeros at the end."""
        xp = array_namespace(x)
        missing = self.padded - self.length
        if missing:
            x = xp.concatenate([x, xp.zeros_like(_repeat_first(x, missing))], axis=-2)
        return xp.reshape(x, (*x.shape[:-2], self.blocks, self.block, x.shape[-1]))

    def from_blocks(self, x):
        """The adjoint of ``in_blocks``: the blocks one after the other, without the padding."""
        xp = array_namespace(x)
        x = xp.reshape(x, (*x.shape[:-3], self.padded, x.shape[-1]))
        return x[..., : self.length, :]

    def in_reach(self, x):
        """(..., length, dim) as (..., blocks, neighbours * block, dim): what each block's queries can see."""
        blocks = self.in_blocks(x)
        parts = [_shifted(blocks, -offset) for offset in self.neighbours]
        return array_namespace(x).concatenate(parts, axis=-2)

    def from_reach(self, x):
        """The adjoint of ``in_reach``: every copy of a position is added to it."""
        total = None
        for place, offset in enumerate(self.neighbours):
            part = x[..., place * self.block : (place + 1) * self.block, :]
            part = _shifted(part, offset)
            total = part if total is None else total + part
        return self.from_blocks(total)


def _repeat_first(x, count):
    return array_namespace(x).broadcast_to(x[..., :1, :], (*x.shape[:-2], count, x.shape[-1]))


def _shifted(blocks, by):
    """The blocks moved ``by`` places along their axis (-3), with zeros for those that come from outside."""
    if by == 0:
        return blocks
    xp = array_namespace(blocks)
    nothing = xp.zeros_like(blocks[..., :1, :, :])
    if by > 0:
        return xp.concatenate([nothing, blocks[..., :-1, :, :]], axis=-3)
    return xp.concatenate([blocks[..., 1:, :, :], nothing], axis=-3)


def _weights(band, q, k, key_mask, scale):
    """The attention weights of each block: (..., blocks, block, global_tokens + neighbours * block)."""
    xp = array_namespace(q, k)
    queries = band.in_blocks(q * scale)
    shared = k[..., None, : band.global_tokens, :]  # the same for all blocks
    scores = xp.concatenate(
        [
            xp.matmul(queries, xp.swapaxes(shared, -1, -2)),
            xp.matmul(queries, xp.swapaxes(band.in_reach(k), -1, -2)),
        ],
        axis=-1,
    )
    allowed = band.mask(getattr(key_mask, "_data", key_mask), getattr(q, "_data", q))
    scores = xp.where(allowed, scores, -math.inf)
    highest = xp.max(scores, axis=-1, keepdims=True)
    e = xp.exp(scores - xp.where(highest == -math.inf, 0, highest))
    total = xp.sum(e, axis=-1, keepdims=True)
    return e / xp.where(total == 0, 1, total)


def _score_cotangents(band, weights, g, v):
    """dS = P (dP - row sum of P dP) with dP = G V^T, for the scores of each block."""
    xp = array_namespace(g)
    cotangents = band.in_blocks(g)
    shared = v[..., None, : band.global_tokens, :]
    d_weights = xp.concatenate(
        [
            xp.matmul(cotangents, xp.swapaxes(shared, -1, -2)),
            xp.matmul(cotangents, xp.swapaxes(band.in_reach(v), -1, -2)),
        ],
        axis=-1,
    )
    return weights * (d_weights - xp.sum(weights * d_weights, axis=-1, keepdims=True))


def _weighted_sum(band, weights, x):
    """For each query the sum of the rows of ``x`` that it sees, weighted: (..., length, dim)."""
    xp = array_namespace(weights, x)
    shared = x[..., None, : band.global_tokens, :]
    return band.from_blocks(
        xp.matmul(weights[..., : band.global_tokens], shared)
        + xp.matmul(weights[..., band.global_tokens :], band.in_reach(x))
    )


def _weighted_sum_adjoint(band, weights, y):
    """The adjoint of ``_weighted_sum`` in ``x``: every key collects the rows of ``y`` of the queries that see it."""
    xp = array_namespace(weights, y)
    rows = band.in_blocks(y)
    transposed = xp.swapaxes(weights, -1, -2)
    local = band.from_reach(xp.matmul(transposed[..., band.global_tokens :, :], rows))
    if not band.global_tokens:
        return local
    shared = xp.matmul(transposed[..., : band.global_tokens, :], rows)
    shared = xp.sum(shared, axis=-3)  # (..., global_tokens, dim)
    beyond = xp.zeros_like(local[..., band.global_tokens :, :])
    return local + xp.concatenate([shared, beyond], axis=-2)


@primitive
def window_attention(q, k, v, key_mask, /, *, window, global_tokens, causal, scale):
    """Each query's attention over the keys in its window and the global keys.

    With P the softmax of the scores S = scale q k^T over the keys in reach, out = P V.

    Backward, as for dense attention, each product taken only where there are weights:
        dV = P^T g,  dP = g V^T,  dS = P (dP - row sum of P dP),  dQ = scale dS K,  dK = scale dS^T Q.

    Args:
        q, k, v: (..., length, head_dim), all of one length.
        key_mask: boolean (..., 1, length), True where a key may be attended to, or None.
    """
    band = Band(q.shape[-2], window, global_tokens, causal)
    return _weighted_sum(band, _weights(band, q, k, key_mask, scale), v)


@window_attention.vjp("q")
def window_attention_vjp_q(g, _out, q, k, v, key_mask, *, window, global_tokens, causal, scale):
    band = Band(q.shape[-2], window, global_tokens, causal)
    weights = _weights(band, q, k, key_mask, scale)
    return _weighted_sum(band, _score_cotangents(band, weights, g, v), k) * scale


@window_attention.vjp("k")
def window_attention_vjp_k(g, _out, q, k, v, key_mask, *, window, global_tokens, causal, scale):
    band = Band(q.shape[-2], window, global_tokens, causal)
    weights = _weights(band, q, k, key_mask, scale)
    return _weighted_sum_adjoint(band, _score_cotangents(band, weights, g, v), q) * scale


@window_attention.vjp("v")
def window_attention_vjp_v(g, _out, q, k, _v, key_mask, *, window, global_tokens, causal, scale):
    band = Band(q.shape[-2], window, global_tokens, causal)
    return _weighted_sum_adjoint(band, _weights(band, q, k, key_mask, scale), g)


def sliding_window_attention(
    q, k, v, *, mask=None, causal=False, scale=None, window=32, global_tokens=0
):
    """Attention in which each query sees the keys near it, and the first ``global_tokens`` keys.

    Args:
        q: (..., queries, head_dim); k, v: (..., keys, head_dim).
        mask: boolean, True = may attend; the same for all queries, (..., 1, keys): a padding mask.
        causal: query i sees the ``window`` latest keys, its own included. Otherwise it sees the keys at distances up
            to ``window // 2``, and a global query sees every key.
        scale: the factor of the scores, by default 1 / sqrt(head_dim).
        window: how many keys a query sees, at least 1.
        global_tokens: how many of the first keys every query sees (in the causal case those not after it).

    Returns:
        (..., queries, head_dim); 0 for a query without keys.

    Raises:
        ValueError: for a mask that differs between queries, a window below 1, or more queries than keys. Fewer queries
            than keys are the last ones of a causal sequence.

    >>> import tinyattn as ta
    >>> q, v = ta.zeros((1, 4, 1)), ta.tensor([[[1.0], [2.0], [3.0], [4.0]]])
    >>> sliding_window_attention(q, q, v, causal=True, window=2).tolist()
    [[[1.0], [1.5], [2.5], [3.5]]]
    """
    queries, keys = q.shape[-2], k.shape[-2]
    if window < 1 or global_tokens < 0:
        raise ValueError(
            f"got window={window} and global_tokens={global_tokens}: expected at least 1 and at least 0"
        )
    if mask is not None and (mask.ndim < 2 or mask.shape[-2] != 1):
        raise ValueError(
            f"window attention takes a mask that is the same for all queries, of shape (..., 1, {keys}): "
            f"got {tuple(mask.shape)}"
        )
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if queries < keys and causal:
        return _last_queries(q, k, v, mask, scale, window, global_tokens)
    if queries != keys:
        raise ValueError(
            f"window attention got {queries} queries and {keys} keys: expected as many, or fewer queries if causal"
        )
    out = window_attention(
        q, k, v, mask, window=window, global_tokens=global_tokens, causal=causal, scale=scale
    )
    if causal or not global_tokens:
        return out
    everywhere = attention(q[..., :global_tokens, :], k, v, mask, causal=False, scale=scale)
    return concatenate([everywhere, out[..., global_tokens:, :]], axis=-2)


def _last_queries(q, k, v, mask, scale, window, global_tokens):
    """The last queries of a causal sequence, as in decoding with a cache: only the keys they can see are read."""
    queries, keys = q.shape[-2], k.shape[-2]
    start = max(keys - queries - window + 1, 0)
    seen = np.concatenate([np.arange(min(global_tokens, start)), np.arange(start, keys)])
    query = np.arange(keys - queries, keys)[:, None]
    allowed = (seen <= query) & ((seen > query - window) | (seen < global_tokens))
    backend = backend_of(q._data)
    allowed = backend.asarray(allowed)
    if mask is not None:
        allowed = allowed & mask[..., backend.asarray(seen)]
    shared = min(global_tokens, start)
    if start > 0:
        k = concatenate([k[..., :shared, :], k[..., start:, :]], axis=-2)
        v = concatenate([v[..., :shared, :], v[..., start:, :]], axis=-2)
    return attention(q, k, v, allowed, causal=False, scale=scale)
