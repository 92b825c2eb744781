"""The base class of GPT and the encoder: embedding, positions, a stack of blocks, and the output layer."""

import math
from dataclasses import dataclass

from ..nn import (
    ALiBi,
    Dropout,
    Embedding,
    LearnedPositions,
    Linear,
    ModuleList,
    Rotary,
    SinusoidalPositions,
    TransformerBlock,
)
from ..nn.initialization import initialize_like_gpt2
from ..nn.normalization import make_norm
from ..ops import linear
from .config import ModelConfig, TransformerOptions
from .ids import as_ids
from .language_model import LanguageModel
from .padding import as_padding_mask, key_mask, token_positions


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(TransformerOptions, ModelConfig):
    """Settings of a GPT or an encoder.

    >>> TransformerConfig(dim=64).head_dim
    16
    """


class Transformer(LanguageModel):
    """The base class of ``GPT`` and ``Encoder``.

    Args:
        config: a ``TransformerConfig``.
        causal: whether a token sees only itself and earlier tokens.
        norm: ``"pre"`` or ``"post"``, the default for ``config.norm``.
        special_tokens: number of ids after the vocabulary that are read but never predicted.
    """

    def __init__(self, config, causal, norm, special_tokens=0):
        if not isinstance(config, TransformerConfig):
            name = type(self).__name__
            raise TypeError(
                f"{name} expected a configuration, got {type(config).__name__}: write {name}({name}Config(...))"
            )
        self.config = config
        norm = config.norm or norm
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
                norm=norm,
                norm_kind=config.norm_kind,
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
        # Post-norm blocks already end with a norm.
        has_norm = norm == "pre"
        self.norm = make_norm(config.norm_kind, config.dim, config.bias) if has_norm else None
        self.head = (
            None if config.tie_head else Linear(config.dim, config.vocabulary_size, bias=False)
        )
        projections = [block.attention.project for block in self.blocks]
        projections += [block.feed_forward.contract for block in self.blocks]
        initialize_like_gpt2(self, projections, config.layers)

    def read(self, ids, cache=None, padding_mask=None):
        """The residual stream after the last block, (..., length, dim)."""
        ids = as_ids(ids, self)
        self.check_length(ids.shape[-1], 0 if cache is None else cache.length)
        padding_mask = as_padding_mask(padding_mask, ids, self)
        x = self.embed(ids, padding_mask, cache)  # (..., length, dim)
        start = 0
        if cache is not None:
            # After the embedding, so that an invalid id leaves the cache unchanged.
            start = cache.length
            padding_mask = cache.extend_padding_mask(padding_mask, ids.shape)
        positions = token_positions(padding_mask)  # (..., total length), or None
        if self.config.positions == "sinusoidal":
            x = x * math.sqrt(self.config.dim)  # the magnitude of the sines
        if self.positions is not None:
            x = self.positions(x, start, None if positions is None else positions[..., start:])
        x = self.dropout(x)
        mask = key_mask(padding_mask)
        layers = [None] * self.config.layers if cache is None else cache.layers
        for block, layer_cache in zip(self.blocks, layers, strict=True):
            x = block(x, mask=mask, cache=layer_cache, positions=positions)
        return x

    def embed(self, ids, padding_mask=None, cache=None):
        """The vectors of tokens without positions, (..., length, dim).

        Args:
            ids, padding_mask: (..., length), of the new tokens.
            cache: a cache of the tokens before them.
        """
        return self.embedding(ids)

    def logits(self, x):
        """The logits, (..., length, vocabulary_size), from the residual stream."""
        if self.norm is not None:
            x = self.norm(x)
        if self.head is not None:
            return self.head(x)
        weight = self.embedding.weight
        if weight.shape[0] > self.config.vocabulary_size:
            weight = weight[: self.config.vocabulary_size]
        return linear(x, weight.T)

    def check_length(self, length, start):
        """Raise ValueError unless ``length`` tokens after ``start`` cached ones fit into ``block_size``."""
        if start + length > self.config.block_size:
            seen = f" after {start} in the cache" if start else ""
            raise ValueError(
                f"{length} tokens{seen} do not fit the block_size {self.config.block_size}: "
                "pass only the last ones, or build the model with a larger block_size"
            )
