"""The settings of all models: the name, type, range, default, unit and help of each, once.

The configurations of the models inherit these fields, and so do the options of ``tinyattn train``. A field's docstring
is its help; the word in brackets at its end is the unit.
"""

import dataclasses
from dataclasses import dataclass
from typing import Literal

from ..attention import attention_kind
from ..attention.window import WINDOW
from ..ranges import Count, CountOrZero, LayerCount, Positive, Probability, check_ranges

# What other libraries call a setting.
OTHER_NAMES = {
    **dict.fromkeys(("vocab_size", "n_vocab"), "vocabulary_size"),
    **dict.fromkeys(("n_layer", "n_layers", "num_layers", "num_hidden_layers"), "layers"),
    **dict.fromkeys(("n_head", "n_heads", "num_heads", "num_attention_heads"), "heads"),
    **dict.fromkeys(("n_embd", "d_model", "embed_dim", "hidden_size"), "dim"),
    **dict.fromkeys(("n_ctx", "n_positions", "context_length", "max_seq_len"), "block_size"),
    **dict.fromkeys(("n_inner", "d_ff", "dim_feedforward"), "feed_forward_dim"),
}


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """Options of every model."""

    layers: LayerCount = 4
    """Blocks, one above the other [blocks]."""

    dim: Count = 128
    """Width of the residual stream [numbers per token]."""

    block_size: Count = 64
    """Context length: tokens the model sees at once [tokens]."""

    dropout: Probability = 0.0
    """Share of activations zeroed at random while training [probability]."""

    bias: bool = False
    """Add a bias in linear layers and norms; the output layer never has one."""

    def check(self, spell=str):
        """Raise a ValueError for the first value out of range, or at odds with another.

        Args:
            spell: how the message writes the name of a setting.
        """
        check_ranges(self, spell)


@dataclass(frozen=True, kw_only=True)
class FeedForwardOptions(CommonOptions):
    """Options of models with feed-forward layers."""

    activation: Literal["gelu_tanh", "gelu", "relu", "relu_squared", "silu"] = "gelu_tanh"
    """Nonlinearity of the feed-forward layers; gelu is exact, gelu_tanh GPT-2's approximation."""


@dataclass(frozen=True, kw_only=True)
class TransformerOptions(FeedForwardOptions):
    """Options of GPT and encoder."""

    heads: Count = 4
    """Attention heads in a block; must divide dim [heads]."""

    feed_forward_dim: Count | None = None
    """Width of the feed-forward layers; by default 4 times dim [numbers per token]."""

    positions: Literal["rotary", "learned", "sinusoidal", "alibi", "none"] = "rotary"
    """Position encoding."""

    rotary_base: Positive = 10000.0
    """Base of the wavelengths of rotary positions."""

    norm: Literal["pre", "post"] | None = None
    """Normalise the input of each sublayer (pre) or the sum after it (post); by default pre, for the encoder post."""

    normalisation: Literal["layer_norm", "rms_norm"] = "layer_norm"
    """Normalisation of the residual stream."""

    qk_norm: bool = True
    """Divide each head's queries and keys by their root mean square."""

    attention: str = "auto"
    """Kind of attention."""

    attention_options: dict | None = None
    """Options of the attention kind; those not given have its defaults."""

    window: Count = WINDOW.options["window"].default
    """Keys a query sees with window attention, its own included [tokens]."""

    global_tokens: CountOrZero = WINDOW.options["global_tokens"].default
    """First tokens that every query sees with window attention [tokens]."""

    tie_head: bool = True
    """Use the token embedding as the output layer's weight too."""

    def check(self, spell=str):
        super().check(spell)
        if self.dim % self.heads:
            raise ValueError(
                f"{spell('dim')} {self.dim} is not a multiple of {spell('heads')} {self.heads}: each head has "
                f"{spell('dim')} / {spell('heads')} features"
            )
        if self.positions == "rotary" and self.head_dim % 2:
            raise ValueError(
                f"rotary positions rotate pairs of features, and a head has {self.head_dim}: "
                f"choose {spell('dim')} and {spell('heads')} with an even quotient"
            )
        attention_kind(self.attention).complete(self.kind_options())

    def kind_options(self):
        """The options of the attention kind: ``attention_options``, and the fields that have an option's name."""
        names = attention_kind(self.attention).options
        fields = {name: value for name, value in vars(self).items() if name in names}
        return {**fields, **(self.attention_options or {})}

    @property
    def head_dim(self):
        """Features of a head."""
        return self.dim // self.heads


@dataclass(frozen=True, kw_only=True)
class ConvolutionOptions(FeedForwardOptions):
    """Options of the CNN."""

    kernel_size: Count = 3
    """Tokens that a convolution of the CNN sees, the present one included [tokens]."""

    dilation: Count = 2
    """Factor between the dilations of two successive layers of the CNN; 1: none is dilated [factor]."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """What every configuration has besides its options: the vocabulary, and the check of the values.

    ``dataclasses.asdict`` gives it as JSON can hold it.

    Raises:
        ValueError: for a value out of range, or at odds with another.
        TypeError: for an unknown setting; the message names the one that was meant.

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
                f"{cls.__name__} takes its settings by name, got {values}: write "
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
