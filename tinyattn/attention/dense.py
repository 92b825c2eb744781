"""Dense scaled dot-product attention: the scores of all queries and keys are one array.

It is defined twice: ``attention`` is one primitive with a hand-written backward; ``dense_attention`` is composed of
recorded operations, so that hooks can observe and replace its scores and weights, forward and backward.
"""

import math

import numpy as np

from ..autograd import primitive
from ..backend import array_namespace
from ..ops import broadcast_to, dropout, matmul, softmax, swapaxes, where
from ..ops.dropout import dropout_by_key
from ..ops.softmax import softmax_vjp
from .kinds import AttentionKind, register_kind
from .masks import visible_keys


@primitive
def attention(q, k, v, mask, /, *, causal=False, scale=None, dropout_p=0.0, dropout_key=None):
    """For each query, the average of the values, weighted by the softmax of the scaled products q . k (the scores).

    Args:
        q: (..., queries, head_dim).
        k: (..., keys, head_dim).
        v: (..., keys, value_dim).
        mask: boolean, (..., queries, keys), True = may attend; or None.
        causal: query i sees only the keys up to i + keys - queries.
        scale: the factor of the scores, by default 1 / sqrt(head_dim).
        dropout_p: the probability of dropping a weight.
        dropout_key: the 64-bit key of the random bits that decide which weights are dropped.

    With scores S, weights P and, for dropout, factors D that are 0 or 1 / (1 - dropout_p),
        S = scale Q K^T        P = softmax(S), over the visible keys        O = (D * P) V
    where * is the elementwise product. A query that sees no key has P = 0 and O = 0.

    Backward. Apply the chain rule to the cotangent dO of O, last step first:
        O = (D * P) V, a matrix product:             dV = (D * P)^T dO        d(D * P) = dO V^T
        D is constant:                               dP = D * (dO V^T)
        P = softmax(S) (see ``softmax``), by row:    dS = P * (dP - sum over keys of P * dP)
        S = scale Q K^T, a matrix product:           dQ = scale dS K          dK = scale dS^T Q
    A masked score has P = 0 and therefore dS = 0; in a row without visible keys all of dS is 0.

    Each vector-Jacobian product recomputes P, so that nothing quadratic in the length is saved.

    Source: A. Vaswani et al., "Attention Is All You Need" (2017), eq. 1.

    >>> import numpy as np
    >>> q, k, v = np.zeros((2, 1)), np.zeros((3, 1)), np.array([[1.0], [2.0], [6.0]])
    >>> attention.forward(q, k, v, None, causal=True)
    array([[1.5],
           [3. ]])
    """
    weights = _weights(q, k, mask, causal, scale)  # (..., queries, keys)
    if dropout_p:
        weights = weights * _dropout_factors(weights, v, dropout_p, dropout_key)
    return weights @ v  # (..., queries, value_dim)


@attention.vjp("q")
def attention_vjp_q(
    g, _out, q, k, v, mask, *, causal=False, scale=None, dropout_p=0.0, dropout_key=None
):
    ds = _score_cotangent(g, q, k, v, mask, causal, scale, dropout_p, dropout_key)
    return (ds @ k) * score_scale(q, scale)


@attention.vjp("k")
def attention_vjp_k(
    g, _out, q, k, v, mask, *, causal=False, scale=None, dropout_p=0.0, dropout_key=None
):
    ds = _score_cotangent(g, q, k, v, mask, causal, scale, dropout_p, dropout_key)
    return ds.swapaxes(-1, -2) @ (q * score_scale(q, scale))


@attention.vjp("v")
def attention_vjp_v(
    g, _out, q, k, v, mask, *, causal=False, scale=None, dropout_p=0.0, dropout_key=None
):
    weights = _weights(q, k, mask, causal, scale)
    if dropout_p:
        weights = weights * _dropout_factors(weights, v, dropout_p, dropout_key)
    return weights.swapaxes(-1, -2) @ g


def _score_cotangent(g, q, k, v, mask, causal, scale, dropout_p, dropout_key):
    """dS, (..., queries, keys), from ``g`` = dO, (..., queries, value_dim)."""
    weights = _weights(q, k, mask, causal, scale)
    dweights = g @ v.swapaxes(-1, -2)
    if dropout_p:
        dweights = dweights * _dropout_factors(weights, v, dropout_p, dropout_key)
    return softmax_vjp(dweights, weights, None)


def _weights(q, k, mask, causal, scale):
    """P, (..., queries, keys)."""
    # Scale the queries, not the scores: in float16 the unscaled product could overflow.
    scores = (q * score_scale(q, scale)) @ k.swapaxes(-1, -2)
    visible = visible_keys(q, k, mask, causal)
    if visible is not None:
        scores = array_namespace(scores).where(visible, scores, -math.inf)
    return softmax.rule(scores)


def _dropout_factors(weights, v, dropout_p, dropout_key):
    """D, (..., queries, keys), where the leading axes are those of the weights and the values, broadcast."""
    xp = array_namespace(weights)
    ones = xp.broadcast_to(xp.ones_like(weights), _weights_shape(weights, v))
    return dropout_by_key.rule(ones, p=dropout_p, key=dropout_key)


def _weights_shape(weights, v):
    leading = np.broadcast_shapes(weights.shape[:-2], v.shape[:-2])
    return leading + tuple(weights.shape[-2:])


def score_scale(q, scale):
    """The factor of the scores: ``scale``, or by default 1 / sqrt(head_dim)."""
    return 1 / math.sqrt(q.shape[-1]) if scale is None else scale


def dense_attention(
    q, k, v, *, mask=None, causal=False, dropout_p=0.0, scale=None, on_scores=None, on_weights=None
):
    """``attention`` composed of recorded operations.

    Args:
        q, k, v, mask, causal, dropout_p, scale: as for ``attention``.
        on_scores, on_weights: hooks that receive the scores before the mask and the weights after the softmax, both
            (..., queries, keys), and return their replacement. Call ``weights.retain_grad()`` in a hook to keep the
            gradient.

    Returns:
        ``(output, weights)``, with the weights before dropout.

    >>> import tinyattn as ta
    >>> q, k, v = ta.tensor([[1.0]]), ta.tensor([[0.0], [0.0]]), ta.tensor([[2.0], [4.0]])
    >>> output, weights = dense_attention(q, k, v)
    >>> output.tolist(), weights.tolist()
    ([[3.0]], [[0.5, 0.5]])
    """
    scores = matmul(q * score_scale(q, scale), swapaxes(k, -1, -2))  # (..., queries, keys)
    if on_scores is not None:
        scores = on_scores(scores)
    visible = visible_keys(q, k, mask, causal)
    if visible is not None:
        scores = where(visible, scores, -math.inf)
    weights = softmax(scores)
    if on_weights is not None:
        weights = on_weights(weights)
    dropped = weights
    if dropout_p:
        dropped = dropout(broadcast_to(weights, _weights_shape(weights, v)), dropout_p)
    return matmul(dropped, v), weights


DENSE = AttentionKind(
    "dense", lambda q, k, v, **shared: dense_attention(q, k, v, **shared)[0], is_exact=True
)

register_kind(DENSE)
