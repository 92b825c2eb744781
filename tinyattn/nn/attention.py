"""The multi-head attention layer."""

import math

from ..attention import attention_kind, scaled_dot_product_attention
from ..attention.dense import dense_attention
from ..ops import join_heads, rms_norm, split_heads
from .containers import Identity
from .dropout import Dropout
from .linear import Linear
from .module import Module

QK_NORM_EPS = 1e-6


class MultiHeadAttention(Module):
    """Several attention heads in parallel, each with its own projections of the tokens.

    With x the tokens and, for each head, Q = x W_Q, K = x W_K, V = x W_V:
        head = softmax(Q K^T / sqrt(head_dim)) V,        output = (head_1, ..., head_h) W_O.

    Args:
        dim: length of a token's vector.
        heads: number of heads; must divide ``dim``.
        causal: whether a token sees only itself and earlier tokens.
        kind: the attention kind, one of ``attention_kinds()``.
        dropout: probability of dropping an attention weight, in training mode.
        bias: whether the projections have biases.
        rotary: a ``Rotary`` that rotates queries and keys, or None.
        alibi: an ``ALiBi`` that adds a bias to the scores, or None.
        qk_norm: divide each head's queries and keys by their root mean square.
        options: options of the kind, such as ``window=64``.

    Attributes:
        query, key, value, project: the four ``Linear`` layers.
        scores, weights: identity modules applied to the scores before the mask and to the weights after the softmax.
            While either has a forward hook, attention is computed densely, so that the hook can observe and replace
            (..., heads, q_len, k_len).

    Raises:
        ValueError: for heads that do not divide ``dim``, an unknown kind, and features that the kind does not support.
        TypeError: for an option that the kind does not have.

    Source: A. Vaswani et al., "Attention Is All You Need" (2017), section 3.2.2; normalized queries and keys:
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
        found = attention_kind(kind)
        found.complete(options)
        if alibi is not None and not found.supports("alibi"):
            raise ValueError(f"{kind} attention does not support ALiBi")
        if alibi is not None and len(alibi.slopes) != heads:
            raise ValueError(f"ALiBi has slopes for {len(alibi.slopes)} heads, expected {heads}")
        if rotary is not None and rotary.head_dim != dim // heads:
            raise ValueError(
                f"Rotary has head_dim {rotary.head_dim}, expected dim / heads = {dim // heads}"
            )
        if dropout and not found.supports("dropout"):
            raise ValueError(
                f"{kind} attention does not support dropout of weights: dropout must be 0"
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
        """Attention of the tokens ``x`` to each other and to the tokens in ``cache``.

        Args:
            x: (..., length, dim).
            mask: booleans that broadcast to (..., heads, length, total length), True where a query may see a key;
                combined with ``causal``.
            cache: a ``KeyValueCache``, which is extended with the keys and values of the tokens, or for linear
                attention with their prefix sums.
            positions: the position of every key, including those in the cache, for ``rotary`` and ``alibi``: integers
                (..., total length), an array on the device; by default 0, 1, 2, ... Window attention counts keys
                instead.
            return_weights: whether to also return the weights, (..., heads, length, total length).

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
        kind = attention_kind(self.kind)
        use_prefix_sums = (
            cache is not None
            and cache.keys is None
            and kind.prefix_state is not None
            and self.causal
            and mask is None
        )
        if cache is not None and not use_prefix_sums:
            k, v = cache.extend(k, v)

        weights = None
        mask = getattr(mask, "_data", mask)
        if return_weights or self.scores.is_watched or self.weights.is_watched:
            y, weights = self._attend_densely(kind, q, k, v, mask, positions)
        elif use_prefix_sums:
            y = cache.attend_with_sums(kind.prefix_state, q, k, v, **kind.complete(self.options))
        else:
            y = self._attend(kind, q, k, v, mask, positions)
        y = self.project(join_heads(y))
        return (y, weights) if return_weights else y

    def _attend(self, kind, q, k, v, mask, positions):
        arguments = {"causal": self.causal, "kind": self.kind, **self.options}
        if self.alibi is not None:
            if not self.causal:
                return self._attend_densely(kind, q, k, v, mask, positions)[0]
            arguments["scale"] = 1 / math.sqrt(self.head_dim)
            q, k = self.alibi.fold(q, k, arguments["scale"], positions)
        if kind.needs_whole_sequence and q.shape[-2] != k.shape[-2]:
            mask = kind.mask(q, k, mask, self.causal, self.options)
            arguments = {"scale": arguments.get("scale")}
        dropout_p = self.dropout.p if self.training else 0.0
        return scaled_dot_product_attention(q, k, v, mask=mask, dropout_p=dropout_p, **arguments)

    def _attend_densely(self, kind, q, k, v, mask, positions):
        """Dense attention of recorded operations, with the modules ``scores`` and ``weights`` as hooks."""
        if not kind.has_weights:
            raise ValueError(f"{self.kind} attention has no scores and weights")

        def biased(scores):
            if self.alibi is not None:
                scores = scores + self.alibi.bias(q, k, positions)
            return self.scores(scores)

        return dense_attention(
            q,
            k,
            v,
            mask=kind.mask(q, k, mask, self.causal, self.options),
            dropout_p=self.dropout.p if self.training else 0.0,
            on_scores=biased,
            on_weights=self.weights,
        )

    def extra_repr(self):
        settings = f"{self.heads * self.head_dim}, heads={self.heads}, kind={self.kind!r}"
        for name in ("causal", "qk_norm"):
            if getattr(self, name):
                settings += f", {name}=True"
        return settings
