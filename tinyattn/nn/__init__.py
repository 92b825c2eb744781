"""Modules: layers and blocks for building models, named as in PyTorch."""

from ..autograd import pytorch_names
from .activations import GELU, Activation, ReLU, Sigmoid, SiLU, Tanh
from .attention import MultiHeadAttention
from .bigrams import BigramEmbedding
from .cache import KeyValueCache, ModelCache
from .containers import Identity, ModuleList, Sequential
from .convolution import CausalConvolution
from .dropout import Dropout
from .embedding import Embedding
from .feed_forward import FeedForward
from .linear import Linear
from .modes import evaluating
from .module import Module
from .normalization import LayerNorm, RMSNorm
from .parameter import Parameter
from .positions import ALiBi, LearnedPositions, Rotary, SinusoidalPositions
from .recurrent import GRU
from .transformer import TransformerBlock

__all__ = [
    "GELU",
    "GRU",
    "ALiBi",
    "Activation",
    "BigramEmbedding",
    "CausalConvolution",
    "Dropout",
    "Embedding",
    "FeedForward",
    "Identity",
    "KeyValueCache",
    "LayerNorm",
    "LearnedPositions",
    "Linear",
    "ModelCache",
    "Module",
    "ModuleList",
    "MultiHeadAttention",
    "Parameter",
    "RMSNorm",
    "ReLU",
    "Rotary",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SinusoidalPositions",
    "Tanh",
    "TransformerBlock",
    "evaluating",
]


def __getattr__(name):
    raise pytorch_names.missing(f"module {__name__!r}", name, pytorch_names.OF_LAYERS)
