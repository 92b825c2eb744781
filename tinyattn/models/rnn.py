"""A recurrent language model, for comparison with attention: its memory of the past is one vector per layer."""

from dataclasses import dataclass

from ..nn import GRU, Dropout, Embedding, LayerNorm, ModuleList
from ..nn.initialization import initialize_like_gpt2
from ..ops import stack
from .config import CommonOptions, ModelConfig
from .language_model import StatefulLanguageModel


@dataclass(frozen=True, kw_only=True)
class RNNConfig(CommonOptions, ModelConfig):
    """Settings of an RNN; ``block_size`` is the length of a training window and does not limit the model.

    >>> RNNConfig(layers=1).dim
    128
    """


class RNN(StatefulLanguageModel):
    """A language model of gated recurrent units: ids to the logits of the next token.

    Each layer adds to the residual stream, x = x + gru(norm(x)), as in a transformer. Information flows from a token
    to a later one only through the states of all tokens between them.

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
        initialize_like_gpt2(self, [], config.layers)
        self.blocks = ModuleList(blocks)  # added last, to keep the initial weights of GRU

    def residual_stream(self, ids, states):
        # One tensor per step, so that the gradient of a step is not as long as the sequence.
        steps = [self.dropout(self.embedding(ids[..., t])) for t in range(ids.shape[-1])]
        after = []
        for norm, gru, state in zip(self.norms, self.blocks, states):
            outputs = gru.run([norm(x) for x in steps], state)
            steps = [x + self.dropout(y) for x, y in zip(steps, outputs)]
            after.append(outputs[-1])
        return stack(steps, axis=-2), after
