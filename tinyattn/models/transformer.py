"""What GPT and the encoder share: tokens and their positions, a stack of blocks, and the output layer."""

import dataclasses
import math
from dataclasses import dataclass

from ..attention import attention_kind
from ..attention.window import WINDOW
from ..nn import (
    ALiBi,
    Dropout,
    Embedding,
    LearnedPositions,
    Linear,
    Module,
    ModuleList,
    Rotary,
    SinusoidalPositions,
    TransformerBlock,
)
from ..nn.feed_forward import ACTIVATIONS
from ..nn.initialisation import initialise_like_gpt2
from ..nn.normalisation import make_norm
from ..ops import cross_entropy, linear
from .ids import as_ids
from .padding import as_padding_mask, key_mask, token_positions

POSITIONS = ("none", "sinusoidal", "learned", "rotary", "alibi")


@dataclass(frozen=True)
class TransformerConfig:
    """What makes a transformer; ``dataclasses.asdict`` gives it as JSON can hold it.

    >>> import dataclasses
    >>> TransformerConfig(**dataclasses.asdict(TransformerConfig(heads=2))).heads
    2
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

    attention_options: dict | None = None
    """Options of that kind, such as ``{"chunk": 32}``; those not given have the kind's defaults."""

    window: int = WINDOW.options["window"].default
    """The option of that name, if the kind has one: how many keys a query sees, itself included."""

    global_tokens: int = WINDOW.options["global_tokens"].default
    """The option of that name, if the kind has one: how many first tokens every query sees."""

    tie_head: bool = True
    """Whether the output layer's weight is the token embedding's."""

    def __post_init__(self):
        for name in ("vocabulary_size", "block_size", "layers", "heads", "dim"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim} cannot be divided among {self.heads} heads")
        if self.feed_forward_dim is not None and self.feed_forward_dim < 1:
            raise ValueError(
                f"feed_forward_dim must be at least 1, or None for 4 dim, got {self.feed_forward_dim}"
            )
        if self.positions == "rotary" and self.head_dim % 2:
            raise ValueError(
                f"rotary positions turn pairs of numbers: dim {self.dim} / heads {self.heads} must be even"
            )
        choices = {
            "positions": POSITIONS,
            "activation": ACTIVATIONS,
            "norm": ("pre", "post"),
            "normalisation": ("layer_norm", "rms_norm"),
        }
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise ValueError(
                    f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}"
                )

        attention_kind(self.attention).complete(self.kind_options())

    @property
    def head_dim(self):
        """Length of a head's vectors."""
        return self.dim // self.heads

    def kind_options(self):
        """The options of the attention kind: ``attention_options``, and the fields that have an option's name."""
        names = attention_kind(self.attention).options
        fields = {name: value for name, value in vars(self).items() if name in names}
        return {**fields, **(self.attention_options or {})}


class Transformer(Module):
    """The base of ``GPT`` and ``Encoder``.

    Args:
        config: a ``TransformerConfig``.
        causal: whether a token sees itself and earlier ones only.
        special_tokens: how many ids after the vocabulary can be read and are never predicted.
    """

    def __init__(self, config, causal, special_tokens=0):
        if not isinstance(config, TransformerConfig):
            name = type(self).__name__
            raise TypeError(
                f"{name} takes a configuration, got {type(config).__name__}: write {name}({name}Config(...))"
            )
        self.config = config
        self.embedding = Embedding(config.vocabulary_size + special_tokens, config.dim)
        self.positions = rotary = alibi = None
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
                causal=causal,
                kind=config.attention,
                rotary=rotary,
                alibi=alibi,
                qk_norm=config.qk_norm,
                **config.kind_options(),
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

    def read(self, ids, cache=None, padding_mask=None):
        """The residual stream after the last block, (..., length, dim)."""
        ids = as_ids(ids, self)
        self.check_length(ids.shape[-1], 0 if cache is None else cache.length)
        padding_mask = as_padding_mask(padding_mask, ids, self)
        x = self.embedding(ids)  # (..., length, dim)
        start = 0
        if cache is not None:  # only now, so that an id which is refused leaves the cache as it was
            start = cache.length
            padding_mask = cache.extend_padding_mask(padding_mask, ids.shape)
        positions = token_positions(padding_mask)  # (..., all lengths), or None
        if self.config.positions == "sinusoidal":
            x = x * math.sqrt(self.config.dim)  # as large as the sines
        if self.positions is not None:
            x = self.positions(x, start, None if positions is None else positions[..., start:])
        x = self.dropout(x)
        mask = key_mask(padding_mask)
        layers = [None] * self.config.layers if cache is None else cache.layers
        for block, layer_cache in zip(self.blocks, layers, strict=True):
            x = block(x, mask=mask, cache=layer_cache, positions=positions)
        return x

    def logits(self, x):
        """The scores of every token of the vocabulary, (..., length, vocabulary_size), from the residual stream."""
        if self.norm is not None:
            x = self.norm(x)
        if self.head is not None:
            return self.head(x)
        weight = self.embedding.weight
        if weight.shape[0] > self.config.vocabulary_size:
            weight = weight[: self.config.vocabulary_size]
        return linear(x, weight.T)

    def loss(self, ids, targets):
        """The mean cross-entropy of ``targets`` under the model's predictions for ``ids``, in nats: a single number.

        Args:
            ids, targets: integers (..., length); a target of -100 does not count.
        """
        return cross_entropy(self(ids), as_ids(targets, self))

    def check_length(self, length, start):
        """Raise ValueError unless ``length`` tokens after ``start`` others fit the block."""
        if start + length > self.config.block_size:
            seen = f" after {start} in the cache" if start else ""
            raise ValueError(
                f"{length} tokens{seen} do not fit the block_size {self.config.block_size}: "
                "give the last ones only, or build the model with a larger block_size"
            )

    def extra_repr(self):
        return changed_settings(self.config)


def changed_settings(config):
    """The fields of a configuration that differ from their defaults, as ``repr`` writes them.

    >>> changed_settings(TransformerConfig(dim=64))
    'dim=64'
    """
    return ", ".join(
        f"{field.name}={getattr(config, field.name)!r}"
        for field in dataclasses.fields(config)
        if getattr(config, field.name) != field.default
    )
