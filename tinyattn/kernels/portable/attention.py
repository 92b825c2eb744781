"""FlashAttention on any backend: tiles of queries and keys, without an array of all scores.

Trade-offs: backward recomputes the scores, and memory is linear in the length, not quadratic. Tiles without allowed
keys under a causal mask are skipped. If one key has nearly all the weight, the error of its score's cotangent is a
rounding error of the weight's cotangent; the rule, which has whole rows, is more accurate.
"""

import math

import numpy as np

from ...autograd import register_kernel
from ...backend import array_namespace
from .tiles import dropout_factors, merge, tile_backward, tile_forward

TILE = 512  # queries and keys in a tile: large, because each tile needs several kernel launches on a GPU


def forward(q, k, v, mask, *, causal=False, scale=None, dropout_p=0.0, dropout_key=None):
    """The output; the residuals are the inputs, the output and the log-sum-exp of each row."""
    if dropout_p >= 1 or q.dtype.char not in "fd":
        return NotImplemented
    xp = array_namespace(q)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    shape = _score_shape(q, k, v)
    outs, lses = [], []
    for rows in _tiles(q.shape[-2]):
        result = None
        for keys, allowed, keep in _key_tiles(
            xp, rows, shape, mask, causal, dropout_p, dropout_key, q.dtype
        ):
            result = merge(
                result,
                tile_forward(
                    q[..., rows, :], k[..., keys, :], v[..., keys, :], allowed, scale, keep
                ),
            )
        if result is None:
            result = _no_allowed_keys(xp, q, v, shape, rows)
        outs.append(result[0])
        lses.append(result[1])
    if not outs:
        return NotImplemented
    out = xp.concatenate(outs, axis=-2)
    return out, (
        q,
        k,
        v,
        mask,
        out,
        xp.concatenate(lses, axis=-2),
        causal,
        scale,
        dropout_p,
        dropout_key,
    )


def backward(g, residuals):
    """The cotangents of q, k and v."""
    q, k, v, mask, out, lse, causal, scale, dropout_p, dropout_key = residuals
    xp = array_namespace(q)
    shape = _score_shape(q, k, v)
    delta = xp.sum(g * out, axis=-1, keepdims=True)
    leading = shape[:-2]
    dq = xp.zeros((*leading, *q.shape[-2:]), dtype=q.dtype)
    dk = xp.zeros((*leading, *k.shape[-2:]), dtype=q.dtype)
    dv = xp.zeros((*leading, *v.shape[-2:]), dtype=q.dtype)
    for rows in _tiles(q.shape[-2]):
        for keys, allowed, keep in _key_tiles(
            xp, rows, shape, mask, causal, dropout_p, dropout_key, q.dtype
        ):
            parts = tile_backward(
                g[..., rows, :],
                q[..., rows, :],
                k[..., keys, :],
                v[..., keys, :],
                lse[..., rows, :],
                delta[..., rows, :],
                allowed,
                scale,
                keep,
            )
            dq[..., rows, :] += parts[0]
            dk[..., keys, :] += parts[1]
            dv[..., keys, :] += parts[2]
    return dq, dk, dv, None


def _tiles(length):
    return [slice(start, min(start + TILE, length)) for start in range(0, length, TILE)]


def _score_shape(q, k, v):
    """The shape of the scores, (..., queries, keys)."""
    leading = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    return (*leading, q.shape[-2], k.shape[-2])


def _key_tiles(xp, rows, shape, mask, causal, dropout_p, dropout_key, dtype):
    """The tiles of keys that some query of ``rows`` may attend to, each with its mask and dropout factors."""
    queries, length = shape[-2:]
    offset = length - queries  # causal: the last query attends to the last key
    for keys in _tiles(length):
        if causal and keys.start > rows.stop - 1 + offset:
            break
        allowed = None
        if mask is not None:
            allowed = mask[..., rows if mask.shape[-2] > 1 else slice(None), :]
            allowed = allowed[..., keys if mask.shape[-1] > 1 else slice(None)]
        if causal and keys.stop - 1 > rows.start + offset:
            row = xp.arange(rows.start, rows.stop)[:, None]
            below = xp.arange(keys.start, keys.stop) <= row + offset
            allowed = below if allowed is None else allowed & below
        keep = None
        if dropout_p:
            keep = dropout_factors(
                xp,
                shape,
                rows.start,
                rows.stop - rows.start,
                keys.start,
                keys.stop - keys.start,
                dropout_key,
                dropout_p,
                dtype,
            )
        yield keys, allowed, keep


def _no_allowed_keys(xp, q, v, shape, rows):
    leading = (*shape[:-2], rows.stop - rows.start)
    out = xp.zeros((*leading, v.shape[-1]), dtype=q.dtype)
    return out, xp.full((*leading, 1), -xp.inf, dtype=q.dtype)


register_kernel("attention", "strict", forward, backward)
