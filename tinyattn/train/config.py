"""Every setting of a training run: its name, type, range, default, unit and explanation, once.

The command line, its help, a configuration file and a run's ``config.json`` all come from these
dataclasses. The field's docstring is its help; the word in brackets at its end is the unit. The
defaults are the preset ``fast``; the other presets are what differs from it.
"""

import dataclasses
import typing
from dataclasses import dataclass, field
from typing import Annotated, Literal

from ..data import InputError


@dataclass(frozen=True)
class Range:
    """What a number may be: from ``low`` to ``high``, ends included unless said otherwise."""

    low: float
    high: float = float("inf")
    open_low: bool = False
    open_high: bool = False

    def __contains__(self, value):
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return bool(above and below) and value != float("inf")

    def __str__(self):
        text = f"{'above' if self.open_low else 'at least'} {self.low:g}"
        if self.high != float("inf"):
            text += f" and {'below' if self.open_high else 'at most'} {self.high:g}"
        return text


Count = Annotated[int, Range(1)]
CountOrNone = Annotated[int, Range(0)]
Share = Annotated[float, Range(0, 1)]
Probability = Annotated[float, Range(0, 1, open_high=True)]
Positive = Annotated[float, Range(0, open_low=True)]
NotNegative = Annotated[float, Range(0)]


@dataclass(frozen=True)
class ModelOptions:
    """What is trained."""

    model: Literal["gpt", "encoder", "rnn", "cnn"] = "gpt"
    """Architecture: gpt and encoder are made of attention, rnn and cnn are to compare with."""

    layers: Count = 4
    """Transformer blocks, one above the other [blocks]."""

    heads: Count = 4
    """Attention heads in a block; must divide the channels [heads]."""

    channels: Count = 128
    """Width of the residual stream [numbers a character]."""

    block_size: Count = 64
    """Characters the model sees at once [characters]."""

    dropout: Probability = 0.0
    """Share of activations zeroed at random while training [probability]."""

    bias: bool = False
    """Add a bias in linear layers and norms."""

    positions: Literal["rotary", "learned", "sinusoidal", "alibi", "none"] = "rotary"
    """How the model knows the order of characters."""

    norm: Literal["layer_norm", "rms_norm"] = "layer_norm"
    """Normalisation of the residual stream."""

    norm_place: Literal["pre", "post"] = "pre"
    """Normalise before a sublayer or after its residual addition."""

    qk_norm: bool = True
    """Divide each head's queries and keys by their root mean square."""

    activation: Literal["gelu_tanh", "gelu", "relu", "relu_squared", "silu"] = "gelu_tanh"
    """Nonlinearity of the feed-forward layers."""

    attention: Literal["auto", "dense", "flash", "window", "linear", "ring"] = "auto"
    """Way attention is computed."""

    tie_head: bool = True
    """Use the character embedding as the output layer's weight too."""


@dataclass(frozen=True)
class OptimizerOptions:
    """How it is trained."""

    optimizer: Literal["muon", "adamw"] = "muon"
    """muon: Muon for the matrices of the blocks and AdamW for the rest; adamw: AdamW for all."""

    learning_rate: Positive = 8e-3
    """Largest learning rate of AdamW [per step]."""

    muon_learning_rate: Positive = 0.03
    """Largest learning rate of Muon [per step]."""

    decay: Literal["linear", "cosine", "none"] = "linear"
    """Shape of the learning rate's way down."""

    decay_share: Share = 0.5
    """Share of the steps, the last ones, over which the learning rate comes down [of 1]."""

    decay_steps: Count | None = None
    """Step at which the learning rate has come down; the number of steps by default [steps]."""

    final_share: Share = 0.0
    """Learning rate at the end, as a share of the largest [of 1]."""

    warmup_steps: CountOrNone = 10
    """Steps over which the learning rate rises from 0 [steps]."""

    beta1: Probability = 0.9
    """AdamW's decay rate for the mean of the gradients [a step]."""

    beta2: Probability = 0.99
    """AdamW's decay rate for the mean of their squares [a step]."""

    weight_decay: NotNegative = 0.1
    """Decay of AdamW's matrices, times the learning rate; vectors are left alone [a step]."""

    muon_momentum: Probability = 0.95
    """Muon's Nesterov momentum [a step]."""

    muon_weight_decay: NotNegative = 0.0
    """Decay of Muon's matrices, times the learning rate [a step]."""

    clip: NotNegative = 1.0
    """Largest norm of all gradients together, above which they are scaled down; 0: never [norm]."""


@dataclass(frozen=True)
class TrainConfig:
    """What is run, for how long, and where to."""

    data: str = "pydoc"
    """Text to train on: a file, pydoc (Python's own documentation) or shakespeare (fetched)."""

    preset: Literal["fast", "nanogpt-cpu", "nanogpt-gpu"] = "fast"
    """Recipe that the other defaults come from."""

    out: str | None = None
    """Directory to write the run to; a new one under runs/ by default [path]."""

    steps: Count = 300
    """Optimiser steps in all [steps]."""

    batch_size: Count = 12
    """Windows of text in a step [windows]."""

    seed: CountOrNone = 1337
    """Start of all random streams: weights, order of the text, dropout, samples."""

    device: str | None = None
    """Device to train on: cpu, cuda, cuda:N or strict; TINYATTN_DEVICE or cpu by default."""

    workers: Count | None = None
    """Threads that share each batch; the processor cores at hand by default [threads]."""

    dtype: Literal["float32", "float64"] = "float32"
    """Type of the parameters and activations."""

    evaluate_every: Count = 100
    """Steps from one evaluation and saved state to the next [steps]."""

    sample_every: CountOrNone = 100
    """Steps from one printed sample to the next; 0: never [steps]."""

    sample_length: Count = 200
    """Length of a printed sample [characters]."""

    snapshots: CountOrNone = 0
    """Copies of the model to keep along the way, the first and last step included [files]."""

    stop_after: Count | None = None
    """Steps after which this call saves and stops, the schedule unchanged [steps]."""

    architecture: ModelOptions = field(default_factory=ModelOptions)
    """What is trained."""

    optimization: OptimizerOptions = field(default_factory=OptimizerOptions)
    """How it is trained."""


GROUPS = ("architecture", "optimization")

_NANOGPT = {
    # nanoGPT's config/train_shakespeare_char.py and the defaults of its train.py.
    "positions": "learned",
    "qk_norm": False,
    "optimizer": "adamw",
    "learning_rate": 1e-3,
    "decay": "cosine",
    "decay_share": 1.0,
    "final_share": 0.1,
    "warmup_steps": 100,
    "evaluate_every": 250,
    "sample_every": 500,
}
PRESETS = {
    "fast": {},
    # The README's line for a laptop without a GPU.
    "nanogpt-cpu": {**_NANOGPT, "steps": 2000},
    "nanogpt-gpu": {
        **_NANOGPT,
        "steps": 5000,
        "batch_size": 64,
        "layers": 6,
        "heads": 6,
        "channels": 384,
        "block_size": 256,
        "dropout": 0.2,
    },
}


def fields_by_name():
    """Every option's dataclass field by its name, which is unique across the groups."""
    found = {}
    for owner in (TrainConfig, ModelOptions, OptimizerOptions):
        hints = typing.get_type_hints(owner, include_extras=True)
        for one in dataclasses.fields(owner):
            if one.name not in GROUPS:
                found[one.name] = (one, hints[one.name])
    return found


def make_config(options=None, **more):
    """A checked configuration from a flat dict of options, above the preset it names.

    Raises:
        InputError: for a name that is no option, a wrong type or a value out of range.

    >>> make_config(preset="nanogpt-cpu", steps=10).optimization.learning_rate
    0.001
    """
    options = {**(options or {}), **more}
    preset = options.get("preset", "fast")
    if preset not in PRESETS:
        raise InputError(f"unknown preset {preset!r}: expected one of {', '.join(PRESETS)}")
    options = {**PRESETS[preset], **options}
    known = fields_by_name()
    for name in options:
        if name not in known:
            raise InputError(f"unknown option {name!r}: tinyattn train --help lists them")
    parts = [
        {name: value for name, value in options.items() if name in _names(owner)}
        for owner in (TrainConfig, ModelOptions, OptimizerOptions)
    ]
    config = TrainConfig(
        **parts[0], architecture=ModelOptions(**parts[1]), optimization=OptimizerOptions(**parts[2])
    )
    check_config(config)
    return config


def _names(owner):
    return {one.name for one in dataclasses.fields(owner)}


def flatten(config):
    """All options of ``config`` as a flat dict.

    >>> flatten(TrainConfig())["heads"]
    4
    """
    values = dataclasses.asdict(config)
    for group in GROUPS:
        values.update(values.pop(group))
    return values


def check_config(config):
    """Raise an InputError that names the first option out of range or at odds with another."""
    values = flatten(config)
    for name, (_, hint) in fields_by_name().items():
        _check_value(name, values[name], hint)
    if config.architecture.channels % config.architecture.heads:
        raise InputError(
            f"{option('channels')} {config.architecture.channels} cannot be shared by "
            f"{option('heads')} {config.architecture.heads}: give channels that the heads divide"
        )
    head_dim = config.architecture.channels // config.architecture.heads
    if config.architecture.positions == "rotary" and head_dim % 2:
        raise InputError(
            f"rotary positions turn pairs of numbers, and a head has {head_dim}: "
            f"give {option('channels')} and {option('heads')} with an even quotient"
        )


def _check_value(name, value, hint):
    for choice in _alternatives(hint):
        kind, limits = choice, None
        if typing.get_origin(choice) is Annotated:
            kind, limits = typing.get_args(choice)
        if value is None and kind is type(None):
            return
        if typing.get_origin(kind) is Literal:
            if value in typing.get_args(kind):
                return
            expected = ", ".join(map(str, typing.get_args(kind)))
            raise InputError(f"{option(name)} must be one of {expected}, given {value!r}")
        if kind is type(None) or not _is_a(value, kind):
            continue
        if limits is not None and value not in limits:
            raise InputError(f"{option(name)} must be {limits}, given {value!r}")
        return
    expected = " or ".join(
        getattr(typing.get_args(c)[0] if typing.get_args(c) else c, "__name__", str(c))
        for c in _alternatives(hint)
    )
    raise InputError(f"{option(name)} must be {expected}, given {value!r}")


def _alternatives(hint):
    """The members of a union, or the type alone."""
    if typing.get_origin(hint) in (typing.Union, type(int | None)):
        return typing.get_args(hint)
    return (hint,)


def _is_a(value, kind):
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def option(name):
    """How the command line spells an option: ``block_size`` is ``--block-size``."""
    return "--" + name.replace("_", "-")
