"""A convolutional language model, for comparison with attention: it sees only its receptive field."""

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
from ..nn.initialization import initialize_like_gpt2
from .config import ConvolutionOptions, ModelConfig
from .language_model import StatefulLanguageModel


@dataclass(frozen=True, kw_only=True)
class CNNConfig(ConvolutionOptions, ModelConfig):
    """Settings of a CNN; ``block_size`` is the length of a training window and does not limit the model.

    >>> CNNConfig(layers=4, kernel_size=3, dilation=1).receptive_field
    9
    """

    @property
    def receptive_field(self):
        """Number of tokens that an output depends on, including the current one."""
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
        """The output, and the state of the convolution for the next tokens."""
        y, state = self.convolution.forward_with_state(self.norm(x), before)
        return x + self.dropout(self.contract(self.activation(y))), state


class CNN(StatefulLanguageModel):
    """A language model of causal convolutions: ids to the logits of the next token.

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
        initialize_like_gpt2(self, [block.contract for block in self.blocks], config.layers)

    def residual_stream(self, ids, states):
        x = self.dropout(self.embedding(ids))  # (..., length, dim)
        after = []
        for block, state in zip(self.blocks, states):
            x, state = block(x, state)
            after.append(state)
        return x, after
