"""A recurrent language model, to compare attention with: all it knows of the past is one vector a layer."""

from dataclasses import dataclass

from ..nn import GRU, Dropout, Embedding, LayerNorm, Module, ModuleList
from ..nn.initialisation import initialise_like_gpt2
from ..ops import cross_entropy, linear, stack
from .config import CommonOptions, ModelConfig
from .ids import as_ids


@dataclass(frozen=True, kw_only=True)
class RNNConfig(CommonOptions, ModelConfig):
    """Settings of an RNN; ``block_size`` is the length of a training window, the model itself has no limit.

    >>> RNNConfig(layers=1).dim
    128
    """


class RNN(Module):
    """Tokens to the logits of the next token, through gated recurrent units.

    Each layer adds to the residual stream, x = x + gru(norm(x)), as in a transformer; a token reaches a later one only
    by passing through the states of all tokens between.

    Args:
        config: an ``RNNConfig``.

    Source: K. Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder" (2014).

    >>> import tinyattn as ta
    >>> model = RNN(RNNConfig(vocabulary_size=10, layers=1, dim=16))
    >>> model(ta.tensor([[1, 2, 3]])).shape
    (1, 3, 10)
    """

    def __init__(self, config):
        self.config = config
        self.embedding = Embedding(config.vocabulary_size, config.dim)
        self.dropout = Dropout(config.dropout)
        self.norms = ModuleList(
            LayerNorm(config.dim, bias=config.bias) for _ in range(config.layers)
        )
        blocks = [GRU(config.dim, config.dim, bias=config.bias) for _ in range(config.layers)]
        self.norm = LayerNorm(config.dim, bias=config.bias)
        initialise_like_gpt2(self, [], config.layers)
        self.blocks = ModuleList(blocks)  # with their own initial weights, as wide as the state

    def forward(self, ids, *, cache=None):
        """The logits of the token that follows each of ``ids``.

        Args:
            ids: integers (..., length), a tensor or an array of the model's device, or nested lists.
            cache: what ``model.cache()`` made: the states after the tokens before ``ids``, updated here.

        Returns:
            (..., length, vocabulary_size).
        """
        ids = as_ids(ids, self)
        # One tensor a step, so that no step's gradient is as long as the sequence.
        steps = [self.dropout(self.embedding(ids[..., t])) for t in range(ids.shape[-1])]
        for layer, (norm, gru) in enumerate(zip(self.norms, self.blocks)):
            state = None if cache is None else cache.states[layer]
            outputs = gru.run([norm(x) for x in steps], state)
            if cache is not None:
                cache.states[layer] = outputs[-1]
            steps = [x + self.dropout(y) for x, y in zip(steps, outputs)]
        if cache is not None:
            cache.length += ids.shape[-1]
        x = self.norm(stack(steps, axis=-2))  # (..., length, dim)
        return linear(x, self.embedding.weight.T)

    def loss(self, ids, targets):
        """The mean cross-entropy of ``targets``, the token that follows each of ``ids``, in nats: a single number."""
        return cross_entropy(self(ids), as_ids(targets, self))

    def cache(self):
        """An empty memory for ``model(ids, cache=cache)``: one state a layer, however long the text becomes."""
        return StateCache(self.config.layers)

    def extra_repr(self):
        return self.config.changed_settings()


class StateCache:
    """What a recurrent or convolutional model keeps of the tokens it has seen: one tensor a layer.

    >>> StateCache(layers=2)
    StateCache(layers=2, length=0)
    """

    def __init__(self, layers):
        self.states = [None] * layers
        self.length = 0

    def __repr__(self):
        return f"StateCache(layers={len(self.states)}, length={self.length})"
