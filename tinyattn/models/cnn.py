"""A convolutional language model, to compare attention with: what lies beyond its receptive field does not exist."""

from dataclasses import dataclass

from ..nn import (
    Activation,
    CausalConvolution,
    Dropout,
    Embedding,
    LayerNorm,
    Linear,
    Module,
    ModuleList,
)
from ..nn.initialisation import initialise_like_gpt2
from ..ops import cross_entropy, linear
from .config import ConvolutionOptions, ModelConfig
from .ids import as_ids
from .rnn import StateCache


@dataclass(frozen=True, kw_only=True)
class CNNConfig(ConvolutionOptions, ModelConfig):
    """Settings of a CNN; ``block_size`` is the length of a training window, the model itself has no limit.

    >>> CNNConfig(layers=4, kernel_size=3, dilation=1).receptive_field
    9
    """

    @property
    def receptive_field(self):
        """Tokens that the last layer sees, the present one included."""
        reach = sum(self.dilation**layer for layer in range(self.layers))
        return 1 + (self.kernel_size - 1) * reach


class CNNBlock(Module):
    """x + contract(activation(convolution(norm(x))))."""

    def __init__(self, config, dilation):
        self.norm = LayerNorm(config.dim, bias=config.bias)
        self.convolution = CausalConvolution(
            config.dim, 2 * config.dim, config.kernel_size, dilation, bias=config.bias
        )
        self.activation = Activation(config.activation)
        self.contract = Linear(2 * config.dim, config.dim, bias=config.bias)
        self.dropout = Dropout(config.dropout)

    def forward(self, x, before=None):
        """The output, and what the convolution must remember for the tokens after these."""
        y, memory = self.convolution.forward_with_state(self.norm(x), before)
        return x + self.dropout(self.contract(self.activation(y))), memory


class CNN(Module):
    """Tokens to the logits of the next token, through causal convolutions.

    Args:
        config: a ``CNNConfig``.

    Source: J. Gehring et al., "Convolutional Sequence to Sequence Learning" (2017); dilation: A. van den Oord et al.,
    "WaveNet" (2016).

    >>> import tinyattn as ta
    >>> model = CNN(CNNConfig(vocabulary_size=10, layers=2, dim=16))
    >>> model(ta.tensor([[1, 2, 3]])).shape
    (1, 3, 10)
    """

    def __init__(self, config):
        self.config = config
        self.embedding = Embedding(config.vocabulary_size, config.dim)
        self.dropout = Dropout(config.dropout)
        self.blocks = ModuleList(
            CNNBlock(config, config.dilation**layer) for layer in range(config.layers)
        )
        self.norm = LayerNorm(config.dim, bias=config.bias)
        initialise_like_gpt2(self, [block.contract for block in self.blocks], config.layers)

    def forward(self, ids, *, cache=None):
        """The logits of the token that follows each of ``ids``.

        Args:
            ids: integers (..., length), a tensor or an array of the model's device, or nested lists.
            cache: what ``model.cache()`` made: what each layer needs of the tokens before, updated here.

        Returns:
            (..., length, vocabulary_size).
        """
        ids = as_ids(ids, self)
        x = self.dropout(self.embedding(ids))
        for layer, block in enumerate(self.blocks):
            x, memory = block(x, None if cache is None else cache.states[layer])
            if cache is not None:
                cache.states[layer] = memory
        if cache is not None:
            cache.length += ids.shape[-1]
        return linear(self.norm(x), self.embedding.weight.T)

    def loss(self, ids, targets):
        """The mean cross-entropy of ``targets``, the token that follows each of ``ids``, in nats: a single number."""
        return cross_entropy(self(ids), as_ids(targets, self))

    def cache(self):
        """An empty memory for ``model(ids, cache=cache)``: the last few tokens of each layer."""
        return StateCache(self.config.layers)

    def extra_repr(self):
        return self.config.changed_settings()
