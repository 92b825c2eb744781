"""Sliding-window attention with global tokens: each query sees w neighbours, and g first tokens that all queries see.

The sequence is cut into blocks about as long as the window. The keys that the queries of a block can see lie in
that block and the adjacent ones, so that all scores of a block are one small matrix: time and memory are
O(n min(w + g, n)). A global key that also lies inside the window is counted once, as a global one.

Source: I. Beltagy, M. Peters and A. Cohan, "Longformer" (2020), section 3.
"""

import math

import numpy as np

from ..autograd import primitive
from ..backend import array_namespace, backend_of
from ..ops import concatenate
from ..ops.softmax import softmax, softmax_vjp
from .dense import attention
from .kinds import AttentionKind, Option


def sees(query, key, causal, window, global_tokens):
    """Whether the query at one position sees the key at another; both are integer arrays, which broadcast.

    A query sees ``window`` keys. If causal they are the latest ones, its own included; otherwise (window - 1) // 2 of
    them come after its own, and the rest before. All queries see the ``global_tokens`` first keys, and if not causal
    the queries there see all keys.

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
    """How a sequence is cut into blocks, and which keys each block's queries see: shapes and boolean masks.

    Where blocks would save nothing, as for a window as long as the sequence, the sequence is one block.
    """

    def __init__(self, length, window, global_tokens, causal):
        self.length = length
        self.global_tokens = global_tokens
        after = 0 if causal else (window - 1) // 2
        before = window - 1 - after
        self.block = max(before, after, 1)
        self.neighbours = (-1, 0, 1) if after else (-1, 0)  # the adjacent blocks that are in reach
        if -(-length // self.block) * self.block**2 * len(self.neighbours) >= length**2:
            self.block, self.neighbours = length, (0,)
        self.blocks = -(-length // self.block)
        self.padded = self.blocks * self.block

        query = np.arange(self.padded).reshape(self.blocks, self.block, 1)
        start = (np.arange(self.blocks) * self.block).reshape(-1, 1, 1)
        first, last = self.neighbours[0], self.neighbours[-1]
        key = start + np.arange(first * self.block, (last + 1) * self.block)
        exists = (key >= global_tokens) & (key < length)  # global keys are counted apart
        rule = {"causal": causal, "window": window, "global_tokens": global_tokens}
        local_mask = sees(query, key, **rule) & exists  # (blocks, block, neighbours * block)
        global_mask = sees(
            query, np.arange(global_tokens), **rule
        )  # (blocks, block, global_tokens)
        # Padding sees nothing: infinite keys would make its weights NaN, and with them the keys' gradients.
        self._mask = np.concatenate([global_mask, local_mask], axis=-1) & (query < length)

    def mask(self, key_mask, like):
        """Which of the global and local keys each query sees: (..., blocks, block, global_tokens + neighbours * block).

        Args:
            key_mask: boolean (..., 1, length), True where a key may be attended to, or None.
            like: an array of the device and namespace of the result.
        """
        backend = backend_of(like)
        mask = backend.asarray(self._mask)
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
    return softmax.rule(scores)


def _score_cotangents(band, weights, g, v):
    """dS from dP = G V^T, for the scores of each block."""
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
    return softmax_vjp(d_weights, weights, None)


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


def sliding_window_attention(q, k, v, *, mask, causal, scale, window, global_tokens):
    """The function of ``kind="window"``: each query sees the keys near it, and the ``global_tokens`` first keys.

    Args:
        q: (..., queries, head_dim); k, v: (..., keys, head_dim).
        mask: boolean, True = may attend; the same for all queries, (..., 1, keys): a padding mask.
        causal, window, global_tokens: see ``sees``. Only if causal may there be fewer queries than keys.
        scale: the factor of the scores, by default 1 / sqrt(head_dim).

    Returns:
        (..., queries, head_dim); 0 for a query without keys.

    Raises:
        ValueError: for a mask that differs between queries, or numbers of queries and keys that do not fit.

    >>> import tinyattn as ta
    >>> q, v = ta.zeros((1, 4, 1)), ta.tensor([[[1.0], [2.0], [3.0], [4.0]]])
    >>> ta.scaled_dot_product_attention(q, q, v, causal=True, kind="window", window=2).tolist()
    [[[1.0], [1.5], [2.5], [3.5]]]
    """
    queries, keys = q.shape[-2], k.shape[-2]
    if mask is not None and (mask.ndim < 2 or mask.shape[-2] != 1):
        raise ValueError(
            f"window attention takes a mask that is the same for all queries, of shape (..., 1, {keys}): "
            f"got {tuple(mask.shape)}"
        )
    # A larger window sees no more, on whichever side of the query the keys lie.
    window, global_tokens = min(window, 2 * keys), min(global_tokens, keys)
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
        "window": Option(32, "Keys that a query sees, its own included [characters].", 1),
        "global_tokens": Option(0, "First characters that every query sees [characters].", 0),
    },
    visible=visible_in_window,
    unsupported=frozenset({"dropout"}),
    check_options={"window": 3, "global_tokens": 1},
)
