"""One tile of attention: some queries against some keys, and how the results of several tiles are put together.

A tile's result is a pair: the output as if its keys were all there are, and the log-sum-exp of its scores, which says
how much those keys weigh. Two such pairs over different keys merge into the pair over both, in any order: this is all
that FlashAttention and ring attention rest on.

Sources: M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax" (2018); T. Dao et al.,
"FlashAttention" (2022), algorithm 1 and, for the backward, algorithm 4.
"""

import numpy as np

from ...backend import array_namespace
from ...backend.counter import keep_mask


def tile_forward(q, k, v, allowed, scale, keep=None):
    """The output of ``q`` over the keys ``k`` alone, and the log-sum-exp of its scores.

    Args:
        q: (..., queries, head_dim)
        k: (..., keys, head_dim)
        v: (..., keys, value_dim)
        allowed: boolean (..., queries, keys), True where a query may attend, or None for everywhere.
        scale: the factor of the scores.
        keep: the factors of the weights under dropout, (..., queries, keys), or None.

    Returns:
        (..., queries, value_dim) and (..., queries, 1). A query that may attend nowhere gets 0 and -inf.
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
    """The pair (output, log-sum-exp) over the keys of both pairs.

    out = (e^a out_a + e^b out_b) / (e^a + e^b) for the log-sum-exps a and b, less their maximum to keep exp finite.
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
    """The parts of dq, dk and dv that this tile contributes; the weights are computed again from ``lse``.

    With P = exp(S - lse) over *all* keys, dV = P^T g, dP = g V^T, dS = P (dP - delta), where
    delta = sum_j P_j dP_j = <g, out> is the same for all tiles of a row.

    Args:
        g: the cotangent of the whole output, (..., queries, value_dim).
        lse: the log-sum-exp over all keys, (..., queries, 1).
        delta: the row products of ``g`` with the whole output, (..., queries, 1).
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
    # A score of infinity takes all the weight, as the largest number does; inf - inf would be NaN.
    scores = xp.minimum(scores, float(np.finfo(scores.dtype).max))
    return scores if allowed is None else xp.where(allowed, scores, -xp.inf)


def dropout_factors(xp, shape, row_start, rows, key_start, keys, key, dropout_p, dtype):
    """The factors 0 or 1/(1-p) of one tile of attention weights, numbered as in the whole matrix of ``shape``."""
    *leading, queries, all_keys = shape
    count = 1
    for length in leading:
        count *= length
    matrix = xp.arange(count, dtype=xp.uint32)[:, None, None] * (queries * all_keys % 2**32)
    row = (xp.arange(rows, dtype=xp.uint32)[:, None] + row_start) * all_keys
    column = xp.arange(keys, dtype=xp.uint32) + key_start
    kept = keep_mask(matrix + row + column, key, dropout_p)
    return (kept / (1 - dropout_p)).astype(dtype).reshape((*leading, rows, keys))
