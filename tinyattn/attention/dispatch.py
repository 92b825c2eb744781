"""Public attention function: it checks the arguments and calls the function of the kind."""

import numpy as np

from ..autograd import Tensor
from ..backend import backend_of, is_array
from ..ops.dropout import check_probability
from .dense import dense_attention
from .kinds import attention_kind


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
    """``softmax(scale q k^T) v``: for each query the average of the values, weighted by how well their keys match.

    Args:
        q: (..., heads, queries, head_dim).
        k: (..., heads, keys, head_dim).
        v: (..., heads, keys, value_dim). Leading axes broadcast, and may be left out.
        mask: a boolean array or tensor that broadcasts to (..., heads, queries, keys): True = may attend.
        causal: query i sees the keys up to i + keys - queries, so that the last query sees the last key, as a cache of
            keys needs. (PyTorch aligns at the first ones.) Together with ``mask``, a key must be allowed by both.
        dropout_p: the probability that a weight is dropped, whenever it is above 0: evaluation passes 0.
        scale: the factor of the scores, by default 1 / sqrt(head_dim).
        kind: how it is computed. ``"auto"`` is the fastest kind that gives exactly this result; ``"dense"`` is composed
            of single recorded operations; ``attention_kinds()`` lists the others, some of which are other functions.
        return_weights: return ``(output, weights)``, the weights before dropout, (..., heads, queries, keys), as a
            part of the graph: ``weights.retain_grad()`` keeps their gradient. All scores are then computed, whatever
            the kind, under its visibility rule.
        options: options of the kind, such as ``window=8``.

    Returns:
        (..., heads, queries, value_dim). A query without a visible key gets 0, and no gradient.

    Raises:
        TypeError: for a mask that is not boolean (zeros and ones would be added to the scores by other libraries).
        ValueError: for shapes that do not fit, an unknown kind, and what the kind does not support.

    Source: A. Vaswani et al., "Attention Is All You Need" (2017), eq. 1.

    >>> import tinyattn as ta
    >>> q, k = ta.tensor([[0.0], [0.0]]), ta.tensor([[0.0], [0.0], [0.0]])
    >>> v = ta.tensor([[1.0], [2.0], [6.0]])
    >>> ta.scaled_dot_product_attention(q, k, v, causal=True).tolist()
    [[1.5], [3.0]]
    """
    q, k, v = (x if isinstance(x, Tensor) else Tensor(x) for x in (q, k, v))
    mask = _mask_array(mask, q)
    _check_shapes(q, k, v, mask)
    check_probability(dropout_p, "dropout_p")
    kind = attention_kind(kind)
    options = kind.complete(options)
    if return_weights:
        if not kind.has_weights:
            raise ValueError(f'kind="{kind.name}" has no weights: leave out return_weights=True')
        mask = kind.mask(q, k, mask, causal, options)
        return dense_attention(q, k, v, mask=mask, dropout_p=dropout_p, scale=scale)
    if mask is not None and not kind.supports("query_mask") and mask.shape[-2:-1] != (1,):
        raise ValueError(
            f'kind="{kind.name}" of attention takes a mask that is the same for all queries, of shape '
            f"(..., 1, {k.shape[-2]}): got {mask.shape}"
        )
    if kind.supports("mask"):
        options["mask"] = mask
    elif mask is not None:
        raise ValueError(f'kind="{kind.name}" of attention takes no mask')
    if kind.supports("dropout"):
        options["dropout_p"] = dropout_p
    elif dropout_p:
        raise ValueError(f'kind="{kind.name}" of attention takes no dropout_p, got {dropout_p}')
    return kind.function(q, k, v, causal=causal, scale=scale, **options)


def _mask_array(mask, q):
    """The mask as a boolean array of the device of ``q``; arrays are not moved, sequences have no device yet."""
    if mask is None:
        return None
    if isinstance(mask, Tensor):
        mask = mask._data
    elif not is_array(mask):
        mask = backend_of(q._data).asarray(np.array(mask))
    if mask.dtype.kind != "b":
        raise TypeError(
            f"attention got a mask of dtype {mask.dtype}: expected booleans, True = may attend; "
            "make it mask.astype(bool), or mask == 0 if it was to be added to the scores"
        )
    if backend_of(mask) is not backend_of(q._data):
        raise TypeError(
            f"attention got a mask on {backend_of(mask).device} and q on {q.device}: nothing is moved silently"
        )
    return mask


def _check_shapes(q, k, v, mask):
    got = f"attention got q of shape {q.shape}, k of shape {k.shape} and v of shape {v.shape}"
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise ValueError(f"{got}: expected (..., heads, length, head_dim), at least two axes each")
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"{got}: expected the same head_dim, the last axis, of q and k")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"{got}: expected as many keys as values, the last axis but one")
    if q.shape[-1] == 0 or k.shape[-2] == 0:
        raise ValueError(f"{got}: expected a head_dim and a number of keys above 0")
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
            f"{got}, and a mask of shape {mask.shape}: expected one that broadcasts to "
            f"(..., queries, keys) = {scores}; a mask of keys alone, (batch, keys), is mask[:, None, None, :]"
        )
