"""The one signature of attention, and the register of the ways to compute it."""

import inspect

import numpy as np

from ..autograd import Tensor
from ..backend import backend_of, is_array
from ..ops.dropout import check_probability
from .dense import dense_attention
from .flash import flash_attention
from .linear import linear_attention
from .ring import ring_over_sequence
from .window import sliding_window_attention

_KINDS = {}  # name -> (function, the names of its own options)
_SHARED = ("mask", "causal", "scale", "dropout_p")
_NAMES_IN_PYTORCH = {"attn_mask": "mask", "is_causal": "causal"}


def register_kind(name, function):
    """Make ``function(q, k, v, *, mask, causal, scale, ...)`` available as ``kind=name``.

    Further keyword arguments of the function become options of the call. Those of the shared arguments that it lacks
    (``dropout_p``, for many) are refused in the call with an error that says so.
    """
    keywords = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    ]
    _KINDS[name] = (function, keywords)


def attention_kinds():
    """The names that ``kind`` may have.

    >>> "dense" in attention_kinds()
    True
    """
    return ("auto", "dense", *sorted(_KINDS))


def attention_options(kind):
    """The further arguments that ``kind`` takes.

    >>> attention_options("window")
    ('window', 'global_tokens')
    """
    _, keywords = _KINDS.get(kind, (None, ()))
    return tuple(name for name in keywords if name not in _SHARED)


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
        kind: how it is computed. ``"auto"`` is the fastest that gives exactly this result; ``"dense"`` is composed of
            single recorded operations; ``attention_kinds()`` lists the others, some of which are other functions.
        return_weights: return ``(output, weights)``, the weights before dropout, (..., heads, queries, keys), as a
            part of the graph: ``weights.retain_grad()`` shows their gradient. It means ``kind="dense"``.
        options: further arguments of a kind, such as ``window=8``.

    Returns:
        (..., heads, queries, value_dim). A query without a visible key gets 0, and no gradient.

    Raises:
        TypeError: for a mask that is not boolean (zeros and ones would be added to the scores by other libraries).
        ValueError: for shapes that do not fit, and for an unknown kind.

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
    shared = {"mask": mask, "causal": causal, "scale": scale, "dropout_p": dropout_p}
    if return_weights and kind not in ("auto", "dense"):
        raise ValueError(
            f'kind="{kind}" keeps no weights: return_weights=True goes with kind="dense"'
        )
    if kind == "dense" or (kind == "auto" and return_weights):
        _refuse_options(kind, options, ())
        output, weights = dense_attention(q, k, v, **shared)
        return (output, weights) if return_weights else output
    if kind == "auto":
        _refuse_options(kind, options, ())
        return flash_attention(q, k, v, **shared)
    if kind not in _KINDS:
        raise ValueError(
            f"scaled_dot_product_attention() got kind={kind!r}: "
            f"expected one of {', '.join(attention_kinds())}"
        )
    function, keywords = _KINDS[kind]
    _refuse_options(kind, options, attention_options(kind))
    for name, value in shared.items():
        if name in keywords:
            options[name] = value
        elif value is not None and value is not False and value != 0:
            raise ValueError(f'kind="{kind}" of attention takes no {name}, got {name}={value!r}')
    return function(q, k, v, **options)


def _refuse_options(kind, options, known):
    for name in options:
        if name in _NAMES_IN_PYTORCH:
            raise TypeError(
                f"scaled_dot_product_attention() got an argument {name}: it is called {_NAMES_IN_PYTORCH[name]} here; "
                "a mask is boolean, and causal is aligned at the last query and the last key"
            )
        if name not in known:
            raise TypeError(
                f'scaled_dot_product_attention() got an argument {name}, which kind="{kind}" does not take: '
                f"expected {', '.join(known) or 'no further ones'}"
            )


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


register_kind("flash", flash_attention)
register_kind("window", sliding_window_attention)
register_kind("linear", linear_attention)
register_kind("ring", ring_over_sequence)
