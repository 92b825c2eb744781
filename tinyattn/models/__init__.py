"""Models, built from the layers of ``tinyattn.nn``."""

from .cnn import CNN, CNNConfig
from .decoding import Decoder
from .encoder import Encoder, EncoderConfig, mask_tokens
from .gpt import GPT, GPTConfig
from .parameter_groups import split_for_muon
from .rnn import RNN, RNNConfig
from .transformer import TransformerConfig

__all__ = [
    "CNN",
    "GPT",
    "RNN",
    "CNNConfig",
    "Decoder",
    "Encoder",
    "EncoderConfig",
    "GPTConfig",
    "RNNConfig",
    "TransformerConfig",
    "mask_tokens",
    "split_for_muon",
]
