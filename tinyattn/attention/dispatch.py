"""The public attention function: validates the arguments and dispatches to the attention kind."""

import numpy as np

from ..autograd import Tensor
from ..autograd.inputs import in_common_dtype
from ..backend import backend_of
from ..ops.dropout import check_probability
from .dense import dense_attention
from .kinds import attention_kind
from .masks import boolean_mask


def scaled_dot_product_attention(
    q,
    k,
    v,
    *,
    mask=None,
    causal=False,
    dropout_p=0.0,
    scale=None,
    kind="auto",
    return_weights=False,
    **options,
):
    """Compute ``softmax(scale q k^T) v``: for each query, the average of the values, weighted by their keys.

    Args:
        q: (..., heads, queries, head_dim).
        k: (..., heads, keys, head_dim).
        v: (..., heads, keys, value_dim). Leading axes broadcast and are optional.
        mask: a boolean array or tensor that broadcasts to (..., heads, queries, keys): True = may attend.
        causal: query i sees the keys up to i + keys - queries, so that the last query sees the last key, as a key-value
            cache requires. (PyTorch aligns the first query with the first key.) With ``mask``, a key must be allowed by
            both.
        dropout_p: the probability of dropping a weight. It applies whenever it is above 0: pass 0 for evaluation.
        scale: the factor of the scores, by default 1 / sqrt(head_dim).
        kind: the attention kind. ``"auto"`` is the fastest exact kind; ``"dense"`` is composed of recorded operations;
            ``attention_kinds()`` lists the others, some of which compute a different function.
        return_weights: return ``(output, weights)``, with the weights before dropout, (..., heads, queries, keys).
            They are part of the graph: ``weights.retain_grad()`` keeps their gradient. Any kind then computes all
            scores, under its visibility rule.
        options: options of the kind, such as ``window=8``.

    Returns:
        (..., heads, queries, value_dim). A query without a visible key gets 0, and no gradient.

    Raises:
        TypeError: for a mask that is not boolean (other libraries add such a mask to the scores).
        ValueError: for incompatible shapes, an unknown kind, and features that the kind does not support.

    Source: A. Vaswani et al., "Attention Is All You Need" (2017), eq. 1.

    >>> import tinyattn as ta
    >>> q, k = ta.tensor([[0.0], [0.0]]), ta.tensor([[0.0], [0.0], [0.0]])
    >>> v = ta.tensor([[1.0], [2.0], [6.0]])
    >>> ta.scaled_dot_product_attention(q, k, v, causal=True).tolist()
    [[1.5], [3.0]]
    """
    q, k, v = in_common_dtype([x if isinstance(x, Tensor) else Tensor(x) for x in (q, k, v)])
    if mask is not None:
        mask = boolean_mask(mask, backend_of(q._data), "mask of attention")
    _check_shapes(q, k, v, mask)
    check_probability(dropout_p, "dropout_p")
    kind = attention_kind(kind)
    options = kind.complete(options)
    if return_weights:
        if not kind.has_weights:
            raise ValueError(
                f'kind="{kind.name}" has no attention weights: omit return_weights=True'
            )
        mask = kind.mask(q, k, mask, causal, options)
        return dense_attention(q, k, v, mask=mask, dropout_p=dropout_p, scale=scale)
    if mask is not None and not kind.supports("query_mask") and mask.shape[-2:-1] != (1,):
        raise ValueError(
            f'kind="{kind.name}" supports only masks that are the same for all queries, of shape '
            f"(..., 1, {k.shape[-2]}): got {mask.shape}"
        )
    if kind.supports("mask"):
        options["mask"] = mask
    elif mask is not None:
        raise ValueError(f'kind="{kind.name}" does not support a mask')
    if kind.supports("dropout"):
        options["dropout_p"] = dropout_p
    elif dropout_p:
        raise ValueError(f'kind="{kind.name}" does not support dropout, got dropout_p={dropout_p}')
    return kind.function(q, k, v, causal=causal, scale=scale, **options)


def _check_shapes(q, k, v, mask):
    got = f"attention got q of shape {q.shape}, k of shape {k.shape} and v of shape {v.shape}"
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise ValueError(f"{got}: expected (..., heads, length, head_dim), at least two axes each")
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"{got}: expected q and k with the same head_dim (the last axis)")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"{got}: expected as many keys as values (the second last axis)")
    if q.shape[-1] == 0 or k.shape[-2] == 0:
        raise ValueError(f"{got}: expected a head_dim and a number of keys of at least 1")
    try:
        leading = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    except ValueError:
        raise ValueError(
            f"{got}: expected leading axes (batch, heads) that are equal or 1"
        ) from None
    if mask is None:
        return
    scores = leading + (q.shape[-2], k.shape[-2])
    try:
        fits = np.broadcast_shapes(mask.shape, scores)[-2:] == scores[-2:]
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{got}, and a mask of shape {mask.shape}: expected a mask that broadcasts to "
            f"(..., queries, keys) = {scores}; for a mask of keys, (batch, keys), pass mask[:, None, None, :]"
        )
