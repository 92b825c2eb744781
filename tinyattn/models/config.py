"""Settings of all models: name, type, range, default, unit and help text of each.

The model configurations and the options of ``tinyattn train`` inherit these fields. The docstring of a field is its
help text; the word in brackets at the end is the unit.
"""

import dataclasses
from dataclasses import dataclass
from typing import Literal

from ..attention import attention_kind
from ..attention.window import WINDOW
from ..ranges import Count, CountOrZero, LayerCount, Positive, Probability, check_ranges

# Names of the settings in other libraries.
OTHER_NAMES = {
    **dict.fromkeys(("vocab_size", "n_vocab"), "vocabulary_size"),
    **dict.fromkeys(("n_layer", "n_layers", "num_layers", "num_hidden_layers"), "layers"),
    **dict.fromkeys(("n_head", "n_heads", "num_heads", "num_attention_heads"), "heads"),
    **dict.fromkeys(("n_embd", "d_model", "embed_dim", "hidden_size"), "dim"),
    **dict.fromkeys(("n_ctx", "n_positions", "context_length", "max_seq_len"), "block_size"),
    "normalisation": "norm_kind",
    **dict.fromkeys(("n_inner", "d_ff", "dim_feedforward"), "feed_forward_dim"),
}


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """Options of every model."""

    layers: LayerCount = 4
    """Number of blocks [blocks]."""

    dim: Count = 128
    """Width of the residual stream [numbers per token]."""

    block_size: Count = 64
    """Context length [tokens]."""

    dropout: Probability = 0.0
    """Dropout probability in training mode [probability]."""

    bias: bool = False
    """Add a bias in linear layers and norms (not in the output layer)."""

    def check(self, spell=str):
        """Raise a ValueError for the first value that is out of range or inconsistent with another one.

        Args:
            spell: converts the name of a setting for the message, such as to an option of the command line.
        """
        check_ranges(self, spell)


@dataclass(frozen=True, kw_only=True)
class FeedForwardOptions(CommonOptions):
    """Options of models with feed-forward layers."""

    activation: Literal["gelu_tanh", "gelu", "relu", "relu_squared", "silu"] = "gelu_tanh"
    """Activation function of the feed-forward layers; gelu is exact, gelu_tanh GPT-2's approximation."""


@dataclass(frozen=True, kw_only=True)
class TransformerOptions(FeedForwardOptions):
    """Options of GPT and encoder."""

    heads: Count = 4
    """Attention heads per block; must divide dim [heads]."""

    feed_forward_dim: Count | None = None
    """Width of the feed-forward layers; by default 4 times dim [numbers per token]."""

    positions: Literal["rotary", "learned", "sinusoidal", "alibi", "none"] = "rotary"
    """Position encoding."""

    rotary_base: Positive = 10000.0
    """Base of the wavelengths of rotary positions."""

    norm: Literal["pre", "post"] | None = None
    """Normalize the input of each sublayer (pre) or the sum after it (post); by default pre, post for the encoder."""

    norm_kind: Literal["layer_norm", "rms_norm"] = "layer_norm"
    """Normalization layer."""

    qk_norm: bool = True
    """Divide each head's queries and keys by their root mean square."""

    attention: str = "auto"
    """Attention kind."""

    attention_options: dict | None = None
    """Options of the attention kind; the others have their defaults."""

    window: Count = WINDOW.options["window"].default
    """Window attention: keys that a query sees, including its own [tokens]."""

    global_tokens: CountOrZero = WINDOW.options["global_tokens"].default
    """Window attention: first tokens, which every query sees [tokens]."""

    tie_head: bool = True
    """Weight tying: use the token embedding as the weight of the output layer."""

    def check(self, spell=str):
        super().check(spell)
        if self.dim % self.heads:
            raise ValueError(
                f"{spell('dim')} {self.dim} is not a multiple of {spell('heads')} {self.heads}: head_dim is "
                f"{spell('dim')} / {spell('heads')}"
            )
        if self.positions == "rotary" and self.head_dim % 2:
            raise ValueError(
                f"rotary positions need an even head_dim, got {self.head_dim}: "
                f"choose {spell('dim')} and {spell('heads')} with an even quotient"
            )
        attention_kind(self.attention).complete(self.kind_options())

    def kind_options(self):
        """The options of the attention kind: the fields with the name of an option, and ``attention_options``."""
        names = attention_kind(self.attention).options
        fields = {name: value for name, value in vars(self).items() if name in names}
        return {**fields, **(self.attention_options or {})}

    @property
    def head_dim(self):
        """Length of a head's vectors, dim / heads."""
        return self.dim // self.heads


@dataclass(frozen=True, kw_only=True)
class GPTOptions(TransformerOptions):
    """Options of GPT."""

    bigram_rows: CountOrZero = 0
    """GPT: largest table of the bigram embedding, which adds a vector for each pair of a token and the one before it;
    with more pairs than rows, pairs share rows by a hash; 0: no bigram embedding [rows]."""

    previous_embedding: bool = True
    """GPT: add to the vector of each token a vector for the token before it."""


@dataclass(frozen=True, kw_only=True)
class ConvolutionOptions(FeedForwardOptions):
    """Options of the CNN."""

    kernel_size: Count = 3
    """CNN: kernel size of the convolutions [tokens]."""

    dilation: Count = 2
    """CNN: ratio of the dilations of successive layers; 1 for no dilation [factor]."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The base class of the model configurations: the vocabulary size and validation.

    ``dataclasses.asdict`` converts a configuration to JSON-compatible values.

    Raises:
        ValueError: for a value that is out of range or inconsistent with another one.
        TypeError: for an unknown setting; the message suggests the right name.

    >>> from tinyattn.models import GPTConfig
    >>> GPTConfig(**dataclasses.asdict(GPTConfig(heads=2))).heads
    2
    >>> GPTConfig(n_layer=2)
    Traceback (most recent call last):
    TypeError: GPTConfig has no setting n_layer: it is called layers here
    """

    vocabulary_size: Count = 65
    """Number of different tokens [tokens]."""

    def __new__(cls, *values, **settings):
        if values:
            raise TypeError(
                f"{cls.__name__} takes keyword arguments only, got {values}: write "
                f"{cls.__name__}(vocabulary_size=...)"
            )
        known = [one.name for one in dataclasses.fields(cls)]
        for name in settings:
            if name not in known:
                raise TypeError(f"{cls.__name__} has no setting {name}: {_advice(name, known)}")
        return super().__new__(cls)

    def __post_init__(self):
        self.check()

    def changed_settings(self):
        """The settings that differ from their defaults, as ``repr`` writes them.

        >>> from tinyattn.models import GPTConfig
        >>> GPTConfig(dim=64).changed_settings()
        'dim=64'
        """
        return ", ".join(
            f"{one.name}={getattr(self, one.name)!r}"
            for one in dataclasses.fields(self)
            if getattr(self, one.name) != one.default
        )


def _advice(name, known):
    other = OTHER_NAMES.get(name)
    if other in known:
        return f"it is called {other} here"
    import difflib

    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else f"expected {', '.join(known)}"
