"""The transformer block: attention between tokens, then a feed-forward layer applied to each token."""

from ..attention import attention_kind
from .attention import MultiHeadAttention
from .dropout import Dropout
from .feed_forward import FeedForward
from .fused_block import fused_block
from .module import Module
from .normalization import make_norm


class TransformerBlock(Module):
    """Attention and a feed-forward layer, each added to the residual stream and normalized.

    norm="post", as in the original transformer and BERT, normalizes each sum:
        x = norm1(x + attention(x)),        x = norm2(x + feed_forward(x)).
    norm="pre", as in GPT-2, normalizes the input of each layer and not the residual stream, so that deep stacks train
    without warmup:
        x = x + attention(norm1(x)),        x = x + feed_forward(norm2(x)).

    Args:
        dim: length of a token's vector.
        heads: number of attention heads.
        norm: ``"pre"`` or ``"post"``.
        norm_kind: ``"layer_norm"`` or ``"rms_norm"``.
        feed_forward_dim: width of the feed-forward layer, 4 dim by default.
        activation: its nonlinearity: see ``Activation``.
        dropout: dropout probability of both layers' outputs, and of attention weights if the kind supports it.
        bias: whether linear layers and norms have biases.
        attention: further arguments of ``MultiHeadAttention``, such as ``causal=True``.

    Source: A. Vaswani et al., "Attention Is All You Need" (2017), section 3.1; pre-norm: R. Xiong et al., "On Layer
    Normalization in the Transformer Architecture" (2020).

    >>> import tinyattn as ta
    >>> TransformerBlock(8, heads=2, norm="post")(ta.ones((3, 5, 8))).shape
    (3, 5, 8)
    """

    def __init__(
        self,
        dim,
        heads,
        *,
        norm="pre",
        norm_kind="layer_norm",
        feed_forward_dim=None,
        activation="gelu",
        dropout=0.0,
        bias=True,
        **attention,
    ):
        if norm not in ("pre", "post"):
            raise ValueError(f'norm must be "pre" or "post", got {norm!r}')
        self.norm = norm
        self.norm1 = make_norm(norm_kind, dim, bias)
        kind = attention_kind(attention.get("kind", "auto"))
        attention["dropout"] = dropout if kind.supports("dropout") else 0.0
        self.attention = MultiHeadAttention(dim, heads, bias=bias, **attention)
        self.dropout = Dropout(dropout)
        self.norm2 = make_norm(norm_kind, dim, bias)
        self.feed_forward = FeedForward(dim, feed_forward_dim, activation, bias, dropout)

    def forward(self, x, *, mask=None, cache=None, positions=None):
        """(..., length, dim) to the same shape; ``mask``, ``cache`` and ``positions`` as in ``MultiHeadAttention``."""
        if mask is None and cache is None and positions is None:
            y = fused_block(self, x)
            if y is not NotImplemented:
                return y
        options = {"mask": mask, "cache": cache, "positions": positions}
        if self.norm == "pre":
            x = x + self.dropout(self.attention(self.norm1(x), **options))
            return x + self.feed_forward(self.norm2(x))
        x = self.norm1(x + self.dropout(self.attention(x, **options)))
        return self.norm2(x + self.feed_forward(x))

    def extra_repr(self):
        return f"norm={self.norm!r}"
