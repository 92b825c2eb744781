"""GPT: a decoder-only transformer that predicts the next token."""

import dataclasses
import math
from dataclasses import dataclass

from ..nn import (
    ALiBi,
    Dropout,
    Embedding,
    LearnedPositions,
    Linear,
    ModelCache,
    Module,
    ModuleList,
    Rotary,
    SinusoidalPositions,
    TransformerBlock,
)
from ..nn.initialisation import initialise_like_gpt2
from ..nn.normalisation import make_norm
from ..ops import cross_entropy, linear
from .padding import key_mask, token_positions


@dataclass(frozen=True)
class GPTConfig:
    """What makes a GPT; ``dataclasses.asdict`` gives it as JSON can hold it.

    Raises:
        ValueError: for a value that is not possible.

    >>> GPTConfig(dim=64).head_dim
    16
    """

    vocabulary_size: int = 65
    """How many different tokens there are."""

    block_size: int = 64
    """How many tokens the model sees at once."""

    layers: int = 4
    """Transformer blocks, one above the other."""

    heads: int = 4
    """Attention heads in a block; must divide ``dim``."""

    dim: int = 128
    """Length of a token's vector in the residual stream."""

    feed_forward_dim: int | None = None
    """Width of the feed-forward layers; None is 4 ``dim``."""

    dropout: float = 0.0
    """Probability of dropping: embeddings, attention weights, each layer's output."""

    bias: bool = True
    """Whether linear layers and norms have biases (the output layer never has one)."""

    positions: str = "learned"
    """``"none"``, ``"sinusoidal"``, ``"learned"``, ``"rotary"`` or ``"alibi"``."""

    rotary_base: float = 10000.0
    """Base of the rotary wavelengths."""

    norm: str = "pre"
    """``"pre"``: each layer's input is normalised, as in GPT-2; ``"post"``: each sum, as in the first transformer."""

    normalisation: str = "layer_norm"
    """``"layer_norm"`` or ``"rms_norm"``."""

    activation: str = "gelu"
    """``"gelu"`` (exact), ``"gelu_tanh"`` (GPT-2's approximation), ``"relu"``, ``"relu_squared"``, ``"silu"``."""

    qk_norm: bool = False
    """Divide each head's queries and keys by their root mean square."""

    attention: str = "auto"
    """How attention is computed: a ``kind`` of ``scaled_dot_product_attention``."""

    window: int = 32
    """With ``attention="window"``: how many keys a query sees, itself included."""

    global_tokens: int = 0
    """With ``attention="window"``: how many first tokens every query sees."""

    tie_head: bool = True
    """Whether the output layer's weight is the token embedding's."""

    @property
    def head_dim(self):
        """Length of a head's vectors."""
        return self.dim // self.heads

    def __post_init__(self):
        for name in ("vocabulary_size", "block_size", "layers", "heads", "dim"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim} cannot be divided among {self.heads} heads")
        if self.positions not in POSITIONS:
            raise ValueError(
                f"positions must be one of {', '.join(POSITIONS)}, got {self.positions!r}"
            )

    def attention_options(self):
        """The further arguments of the kind of attention."""
        if self.attention == "window":
            return {"window": self.window, "global_tokens": self.global_tokens}
        return {}


POSITIONS = ("none", "sinusoidal", "learned", "rotary", "alibi")


class GPT(Module):
    """Tokens to the logits of the next token: embedding, blocks of causal attention, norm, output layer.

    Args:
        config: a ``GPTConfig``.

    Weights start as in GPT-2: see ``initialise_like_gpt2``. They are drawn from the default random stream
    (``ta.manual_seed``), the same on every device.

    Source: A. Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), section 2.3; A. Vaswani et
    al., "Attention Is All You Need" (2017).

    >>> import tinyattn as ta
    >>> model = GPT(GPTConfig(vocabulary_size=10, block_size=8, layers=1, heads=2, dim=16))
    >>> ids = ta.tensor([[1, 2, 3]])
    >>> model(ids).shape
    (1, 3, 10)
    >>> loss = model.loss(ids, ta.tensor([[2, 3, 4]]))
    >>> loss.backward()
    """

    def __init__(self, config):
        self.config = config
        self.embedding = Embedding(config.vocabulary_size, config.dim)
        self.positions = None
        rotary = alibi = None
        if config.positions == "learned":
            self.positions = LearnedPositions(config.block_size, config.dim)
        elif config.positions == "sinusoidal":
            self.positions = SinusoidalPositions(config.dim)
        elif config.positions == "rotary":
            rotary = Rotary(config.head_dim, config.rotary_base)
        elif config.positions == "alibi":
            alibi = ALiBi(config.heads)
        self.dropout = Dropout(config.dropout)
        self.blocks = ModuleList(
            TransformerBlock(
                config.dim,
                config.heads,
                norm=config.norm,
                normalisation=config.normalisation,
                feed_forward_dim=config.feed_forward_dim,
                activation=config.activation,
                dropout=config.dropout,
                bias=config.bias,
                causal=True,
                kind=config.attention,
                rotary=rotary,
                alibi=alibi,
                qk_norm=config.qk_norm,
                **config.attention_options(),
            )
            for _ in range(config.layers)
        )
        # Post-norm blocks end with a norm of their own.
        has_norm = config.norm == "pre"
        self.norm = make_norm(config.normalisation, config.dim, config.bias) if has_norm else None
        self.head = (
            None if config.tie_head else Linear(config.dim, config.vocabulary_size, bias=False)
        )
        projections = [block.attention.project for block in self.blocks]
        projections += [block.feed_forward.contract for block in self.blocks]
        initialise_like_gpt2(self, projections, config.layers)

    def forward(self, ids, *, cache=None, padding_mask=None):
        """The logits of the token that follows each of ``ids``.

        Args:
            ids: integers (..., length), a tensor or an array of the model's device.
            cache: what ``model.cache()`` made; the tokens before ``ids`` are taken from it, and ``ids`` added to it.
            padding_mask: booleans (..., length), True for real tokens and False for padding, which no token sees and
                which does not count as a position. What comes out at padding has no meaning.

        Returns:
            (..., length, vocabulary_size).

        Raises:
            ValueError: if the tokens, those in the cache included, are more than ``block_size``.
            IndexError: for an id outside the vocabulary.
        """
        start = 0 if cache is None else cache.length
        length = ids.shape[-1]
        if start + length > self.config.block_size:
            seen = f" after {start} in the cache" if start else ""
            raise ValueError(
                f"{length} tokens{seen} do not fit the block_size {self.config.block_size}: "
                "give the last ones only, or build the model with a larger block_size"
            )
        padding_mask = getattr(padding_mask, "_data", padding_mask)
        if cache is not None:
            padding_mask = cache.extend_padding_mask(padding_mask, ids.shape)

        x = self.embedding(ids)  # (..., length, dim)
        if self.config.positions == "sinusoidal":
            x = x * math.sqrt(self.config.dim)  # as large as the sines
        if self.positions is not None:
            positions = token_positions(padding_mask, length)
            x = self.positions(x, start, positions)
        x = self.dropout(x)
        mask = key_mask(padding_mask)
        layers = [None] * self.config.layers if cache is None else cache.layers
        for block, layer_cache in zip(self.blocks, layers):
            x = block(x, mask=mask, cache=layer_cache)
        if self.norm is not None:
            x = self.norm(x)
        return self.head(x) if self.head is not None else linear(x, self.embedding.weight.T)

    def loss(self, ids, targets):
        """The mean cross-entropy of ``targets``, the token that follows each of ``ids``, in nats: a single number.

        Args:
            ids, targets: integers (..., length); a target of -100 does not count.
        """
        return cross_entropy(self(ids), targets)

    def cache(self):
        """An empty cache for ``model(ids, cache=cache)``, which then computes the new tokens only.

        >>> import tinyattn as ta
        >>> model = GPT(GPTConfig(vocabulary_size=10, block_size=8, layers=1, heads=2, dim=16))
        >>> cache = model.cache()
        >>> with ta.no_grad():
        ...     for ids in ([[1, 2, 3]], [[4]]):
        ...         logits = model(ta.tensor(ids), cache=cache)
        >>> logits.shape, cache.length
        ((1, 1, 10), 4)
        """
        return ModelCache(self.config.layers)

    def extra_repr(self):
        default = GPTConfig()
        changed = [
            f"{field.name}={getattr(self.config, field.name)!r}"
            for field in dataclasses.fields(GPTConfig)
            if getattr(self.config, field.name) != getattr(default, field.name)
        ]
        return ", ".join(changed)
