"""Multi-head attention as a layer: projections around scaled dot-product attention."""

import math

from ..attention import attention_kinds, scaled_dot_product_attention
from ..attention.dispatch import attention_options
from ..attention.linear import elu_plus_one
from ..attention.masks import visible_keys, window_mask
from ..backend import backend_of
from ..ops import dropout, join_heads, matmul, rms_norm, softmax, split_heads, swapaxes, where
from .containers import Identity
from .dropout import Dropout
from .linear import Linear
from .module import Module

QK_NORM_EPS = 1e-6
KINDS_WITH_DROPOUT = ("auto", "dense", "flash")


class MultiHeadAttention(Module):
    """Each token looks at the others in several ways at once, and takes in a mixture of what it finds.

    With x the tokens and, for each head, Q = x W_Q, K = x W_K, V = x W_V:
        head = softmax(Q K^T / sqrt(head_dim)) V,        output = (head_1, ..., head_h) W_O.

    Args:
        dim: length of a token's vector.
        heads: number of heads; must divide ``dim``.
        causal: whether a token sees itself and earlier ones only.
        kind: how attention is computed, as in ``scaled_dot_product_attention``: ``"auto"``, ``"dense"``, ``"flash"``,
            ``"window"``, ``"linear"`` or ``"ring"``.
        dropout: probability of dropping an attention weight, in training.
        bias: whether the projections have biases.
        rotary: a ``Rotary`` that turns queries and keys, or None.
        alibi: an ``ALiBi`` that shifts scores by distance, or None.
        qk_norm: divide each head's queries and keys by their root mean square.
        options: further arguments of the kind, such as ``window=64``.

    Attributes:
        query, key, value, project: the four ``Linear`` layers.
        scores, weights: named places that scores before the mask and weights after the softmax pass through. Once one
            of them has a forward hook attention is computed densely, so that the hook can see and replace
            (..., heads, q_len, k_len).

    Raises:
        ValueError: for heads that do not divide ``dim``, an unknown kind, and what a kind cannot do.
        TypeError: for an option that the kind does not take.

    Source: A. Vaswani et al., "Attention Is All You Need" (2017), section 3.2.2; normalised queries and keys:
    A. Henry et al., "Query-Key Normalization for Transformers" (2020).

    >>> import tinyattn as ta
    >>> attention = MultiHeadAttention(8, heads=2, causal=True)
    >>> output, weights = attention(ta.ones((3, 5, 8)), return_weights=True)
    >>> output.shape, weights.shape
    ((3, 5, 8), (3, 2, 5, 5))
    """

    def __init__(
        self,
        dim,
        heads,
        *,
        causal=False,
        kind="auto",
        dropout=0.0,
        bias=True,
        rotary=None,
        alibi=None,
        qk_norm=False,
        **options,
    ):
        if heads < 1 or dim < 1 or dim % heads:
            raise ValueError(f"dim {dim} cannot be divided among {heads} heads")
        if kind not in attention_kinds():
            raise ValueError(f"kind must be one of {', '.join(attention_kinds())}, got {kind!r}")
        unknown = set(options) - set(attention_options(kind))
        if unknown:
            raise TypeError(
                f"MultiHeadAttention got {', '.join(sorted(unknown))}, which is neither an argument of it nor of "
                f"kind={kind!r}: expected {', '.join(attention_options(kind)) or 'no further ones'}"
            )
        if alibi is not None and kind == "linear":
            raise ValueError("linear attention has no scores that ALiBi could shift")
        if alibi is not None and len(alibi.slopes) != heads:
            raise ValueError(f"ALiBi has slopes for {len(alibi.slopes)} heads, there are {heads}")
        if rotary is not None and rotary.head_dim != dim // heads:
            raise ValueError(f"Rotary turns heads of {rotary.head_dim}, these have {dim // heads}")
        if dropout and kind not in KINDS_WITH_DROPOUT:
            raise ValueError(
                f"{kind} attention keeps no weights that dropout could drop: dropout must be 0"
            )
        self.heads = heads
        self.head_dim = dim // heads
        self.causal = causal
        self.kind = kind
        self.qk_norm = qk_norm
        self.options = options
        self.query = Linear(dim, dim, bias=bias)
        self.key = Linear(dim, dim, bias=bias)
        self.value = Linear(dim, dim, bias=bias)
        self.rotary = rotary
        self.alibi = alibi
        self.scores = Identity()
        self.weights = Identity()
        self.dropout = Dropout(dropout)
        self.project = Linear(dim, dim, bias=bias)

    def forward(self, x, *, mask=None, cache=None, positions=None, return_weights=False):
        """Attention of the tokens ``x`` to each other, and to those in ``cache``.

        Args:
            x: (..., length, dim).
            mask: booleans that broadcast to (..., heads, length, all lengths), True where a query may see a key;
                ``causal`` holds besides.
            cache: a ``KeyValueCache``; it takes in the tokens' keys and values, or for linear attention their sums.
            positions: the position of every key, those in the cache included, for ``rotary`` and ``alibi``: integers
                (..., all lengths), an array of the device; by default 0, 1, 2, ... A window counts keys instead.
            return_weights: whether to return the weights too, (..., heads, length, all lengths).

        Returns:
            (..., length, dim).
        """
        q = split_heads(self.query(x), heads=self.heads)  # (..., heads, length, head_dim)
        k = split_heads(self.key(x), heads=self.heads)
        v = split_heads(self.value(x), heads=self.heads)
        if self.qk_norm:
            q = rms_norm(q, (self.head_dim,), eps=QK_NORM_EPS)
            k = rms_norm(k, (self.head_dim,), eps=QK_NORM_EPS)
        start = 0 if cache is None else cache.length
        if self.rotary is not None:
            new = None if positions is None else positions[..., start:]
            q = self.rotary(q, start, new)
            k = self.rotary(k, start, new)
        can_sum = self.kind == "linear" and self.causal and mask is None
        sums_up = cache is not None and cache.keys is None and can_sum
        if cache is not None and not sums_up:
            k, v = cache.extend(k, v)

        weights = None
        if return_weights or self.scores.is_watched or self.weights.is_watched:
            y, weights = self._attend_densely(q, k, v, mask, positions)
        elif sums_up:
            feature_map = self.options.get("feature_map", elu_plus_one)
            y = cache.attend_linearly(q, k, v, feature_map=feature_map)
        else:
            y = self._attend(q, k, v, mask, positions)
        y = self.project(join_heads(y))
        return (y, weights) if return_weights else y

    def _attend(self, q, k, v, mask, positions):
        scale = None
        if self.alibi is not None:
            if not self.causal:
                return self._attend_densely(q, k, v, mask, positions)[0]
            scale = 1 / math.sqrt(self.head_dim)
            q, k = self.alibi.fold(q, k, scale, positions)
        # Ring attention shares out whole sequences; what it computes for new queries alone is dense attention.
        is_part = self.kind == "ring" and q.shape[-2] != k.shape[-2]
        return scaled_dot_product_attention(
            q,
            k,
            v,
            mask=mask,
            causal=self.causal,
            dropout_p=self.dropout.p if self.training else 0.0,
            scale=scale,
            kind="auto" if is_part else self.kind,
            **({} if is_part else self.options),
        )

    def _attend_densely(self, q, k, v, mask, positions):
        """Every intermediate result by itself, for those who want to look at it."""
        if self.kind == "linear":
            raise ValueError("linear attention has no scores and weights to look at")
        scores = matmul(q * (1 / math.sqrt(self.head_dim)), swapaxes(k, -1, -2))
        if self.alibi is not None:
            scores = scores + self.alibi.bias(q, k, positions)
        scores = self.scores(scores)
        visible = self._visible(q, k, getattr(mask, "_data", mask))
        if visible is not None:
            scores = where(visible, scores, -math.inf)
        weights = self.weights(softmax(scores))
        return matmul(dropout(weights, self.dropout.p, training=self.training), v), weights

    def _visible(self, q, k, mask):
        """Which query sees which key, (..., q_len, k_len), by the mask and by the kind of attention; None for all."""
        if self.kind != "window":
            return visible_keys(q, k, mask, self.causal)
        options = {"window": 32, **self.options}
        near = window_mask(q.shape[-2], k.shape[-2], causal=self.causal, **options)
        near = backend_of(q._data).asarray(near)
        return near if mask is None else near & mask

    def extra_repr(self):
        settings = f"{self.heads * self.head_dim}, heads={self.heads}, kind={self.kind!r}"
        for name in ("causal", "qk_norm"):
            if getattr(self, name):
                settings += f", {name}=True"
        return settings
