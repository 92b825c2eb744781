"""Attention of a tile, some queries and some keys, and merging the results of several tiles.

The result for a tile is a pair: the output for these keys alone, and the log-sum-exp of their scores, which is their
weight. Pairs for different keys can be merged in any order; FlashAttention and ring attention are based on this.

Sources: M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax" (2018); T. Dao et al.,
"FlashAttention" (2022), algorithm 1 and, for the backward, algorithm 4.
"""

import math

import numpy as np

from ...backend import array_namespace
from ...backend.counter import keep_mask


def tile_forward(q, k, v, allowed, scale, keep=None):
    """The attention output of ``q`` for the keys ``k`` alone, and the log-sum-exp of the scores.

    Args:
        q: (..., queries, head_dim)
        k: (..., keys, head_dim)
        v: (..., keys, value_dim)
        allowed: boolean (..., queries, keys), True where a query may attend to a key; None for everywhere.
        scale: factor of the scores.
        keep: dropout factors of the weights, (..., queries, keys), or None.

    Returns:
        (..., queries, value_dim) and (..., queries, 1). For a query without allowed keys, 0 and -inf.
    """
    xp = array_namespace(q)
    scores = _scores(q, k, allowed, scale)
    highest = xp.max(scores, axis=-1, keepdims=True)
    shift = xp.where(highest == -xp.inf, 0, highest)
    weights = xp.exp(scores - shift)
    total = xp.sum(weights, axis=-1, keepdims=True)
    if keep is not None:
        weights = weights * keep
    out = xp.matmul(weights, v) / xp.where(total == 0, 1, total)
    return out, shift + xp.log(total)


def merge(one, other):
    """Merge two pairs (output, log-sum-exp) for different keys into the pair for all of them.

    out = (e^a out_a + e^b out_b) / (e^a + e^b) for log-sum-exps a and b, whose maximum is subtracted to keep exp
    finite.
    """
    if one is None:
        return other
    (out_a, lse_a), (out_b, lse_b) = one, other
    xp = array_namespace(out_a)
    highest = xp.maximum(lse_a, lse_b)
    shift = xp.where(highest == -xp.inf, 0, highest)
    weight_a, weight_b = xp.exp(lse_a - shift), xp.exp(lse_b - shift)
    total = weight_a + weight_b
    out = (out_a * weight_a + out_b * weight_b) / xp.where(total == 0, 1, total)
    return out, shift + xp.log(total)


def tile_backward(g, q, k, v, lse, delta, allowed, scale, keep=None):
    """The contributions of a tile to dq, dk and dv; the weights are recomputed from ``lse``.

    With P = exp(S - lse) over *all* keys, dV = P^T g, dP = g V^T, dS = P (dP - delta), where
    delta = sum_j P_j dP_j = <g, out> is the same for all tiles of a row.

    Args:
        g: cotangent of the complete output, (..., queries, value_dim).
        lse: log-sum-exp over all keys, (..., queries, 1).
        delta: dot products of the rows of ``g`` and the complete output, (..., queries, 1).
    """
    xp = array_namespace(q)
    scores = _scores(q, k, allowed, scale)
    weights = xp.exp(scores - xp.where(lse == -xp.inf, 0, lse))
    d_weights = xp.matmul(g, xp.swapaxes(v, -1, -2))
    kept = weights
    if keep is not None:
        kept = weights * keep
        d_weights = d_weights * keep
    d_scores = weights * (d_weights - delta)
    dq = xp.matmul(d_scores, k) * scale
    dk = xp.matmul(xp.swapaxes(d_scores, -1, -2), q) * scale
    dv = xp.matmul(xp.swapaxes(kept, -1, -2), g)
    return dq, dk, dv


def _scores(q, k, allowed, scale):
    xp = array_namespace(q)
    scores = xp.matmul(q * scale, xp.swapaxes(k, -1, -2))
    # An infinite score is replaced by the largest number, which has all the weight, too; inf - inf would be NaN.
    scores = xp.minimum(scores, float(np.finfo(scores.dtype).max))
    return scores if allowed is None else xp.where(allowed, scores, -xp.inf)


def dropout_factors(xp, shape, row_start, rows, key_start, keys, dropout_key, dropout_p, dtype):
    """The dropout factors 0 or 1/(1-p) of a tile of weights, by index in the array of all weights, of ``shape``."""
    *leading, queries, all_keys = shape
    matrix = xp.arange(math.prod(leading), dtype=xp.uint32)[:, None, None] * (
        queries * all_keys % 2**32
    )
    row = (xp.arange(rows, dtype=xp.uint32)[:, None] + row_start) * all_keys
    column = xp.arange(keys, dtype=xp.uint32) + key_start
    kept = keep_mask(matrix + row + column, dropout_key, dropout_p)
    return (kept / (1 - dropout_p)).astype(dtype).reshape((*leading, rows, keys))
