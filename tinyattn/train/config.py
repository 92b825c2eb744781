"""Every setting of a training run: its name, type, range, default, unit and explanation, once.

The command line, its help, a configuration file and a run's ``config.json`` all come from these
dataclasses. The field's docstring is its help; the word in brackets at its end is the unit. The
defaults are the preset ``fast``; the other presets are what differs from it.
"""

import contextlib
import dataclasses
import json
import typing
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ..data import InputError
from ..data.json_text import parse_json
from ..data.paths import IsPath, PathText, expand_path
from ..error_messages import did_you_mean, shown
from ..models.config import ConvolutionOptions, TransformerOptions
from ..ranges import (
    Count,
    CountOrZero,
    FileCount,
    NotNegative,
    Positive,
    Probability,
    Seed,
    Share,
    WorkerCount,
    as_float,
    check_ranges,
)


@dataclass(frozen=True, kw_only=True)
class ModelOptions(TransformerOptions, ConvolutionOptions):
    """Model options; see ``models/config.py`` for most of them."""

    model: Literal["gpt", "encoder", "rnn", "cnn"] = "gpt"
    """Architecture; gpt and encoder are transformers, rnn and cnn baselines to compare them with."""


@dataclass(frozen=True)
class OptimizerOptions:
    """Optimizer options."""

    optimizer: Literal["muon", "adamw"] = "muon"
    """muon: Muon for the matrices of the blocks and AdamW for the rest; adamw: AdamW for all."""

    learning_rate: Positive = 0.012
    """Largest learning rate of AdamW [per step]."""

    muon_learning_rate: Positive = 0.03
    """Largest learning rate of Muon [per step]."""

    decay: Literal["linear", "cosine", "none"] = "linear"
    """Learning-rate decay schedule."""

    decay_share: Share = 0.5
    """Share of the steps, the last ones, over which the learning rate comes down [of 1]."""

    decay_steps: Count | None = None
    """Step at which the learning rate has come down; the number of steps by default [steps]."""

    final_share: Share = 0.0
    """Learning rate at the end, as a share of the largest [of 1]."""

    warmup_steps: CountOrZero = 10
    """Steps over which the learning rate rises from 0 [steps]."""

    beta1: Probability = 0.9
    """AdamW's decay rate for the mean of the gradients [a step]."""

    beta2: Probability = 0.99
    """AdamW's decay rate for the mean of their squares [a step]."""

    weight_decay: NotNegative = 0.1
    """Decay of AdamW's matrices, times the learning rate; vectors are left alone [a step]."""

    muon_momentum: Probability = 0.9
    """Muon's Nesterov momentum [a step]."""

    muon_weight_decay: NotNegative = 0.0
    """Decay of Muon's matrices, times the learning rate [a step]."""

    clip: NotNegative = 1.0
    """Largest norm of all gradients together, above which they are scaled down; 0: never [norm]."""


@dataclass(frozen=True)
class RunOptions:
    """Run options."""

    data: PathText | tuple[PathText, ...] = "pydoc"
    """Text to train on: one or more files, joined as they are; - for standard input; pydoc (Python's own
    documentation); or shakespeare (fetched)."""

    preset: Literal["fast", "nanogpt-cpu", "nanogpt-gpu"] = "fast"
    """Recipe that the other defaults come from."""

    out: PathText | None = None
    """Directory to write the run to; a new one under runs/ by default [path]."""

    steps: Count = 300
    """Optimiser steps in all [steps]."""

    batch_size: Count = 12
    """Windows of text in a step [windows]."""

    seed: Seed = 1337
    """Start of all random streams: weights, order of the text, dropout, samples."""

    device: str | None = None
    """Device to train on: cpu, cuda, cuda:N or strict; TINYATTN_DEVICE or cpu by default."""

    workers: WorkerCount | None = None
    """Workers that share each batch: processes on Linux, else threads. By default the CPU cores this process may use:
    the least of its CPU affinity, the container's CPU quota, and OMP_NUM_THREADS. The last digits of a run depend on
    their number [workers]."""

    dtype: Literal["float32", "float64"] = "float32"
    """Type of the parameters and activations."""

    evaluate_every: Count = 100
    """Steps from one evaluation and saved state to the next [steps]."""

    evaluate_characters: Count = 1_000_000
    """Most characters of the validation part that an evaluation takes, the same ones each time, evenly spread
    [characters]."""

    sample_every: CountOrZero = 100
    """Steps from one printed sample to the next; 0: never [steps]."""

    sample_length: Count = 200
    """Length of a printed sample [characters]."""

    snapshots: FileCount = 0
    """Copies of the model to keep along the way, the first and last step included [files]."""

    stop_after: Count | None = None
    """Steps after which this call saves and stops, the schedule unchanged [steps]."""


@dataclass(frozen=True)
class TrainConfig:
    """A training run: the three groups of options."""

    run: RunOptions = field(default_factory=RunOptions)
    architecture: ModelOptions = field(default_factory=ModelOptions)
    optimization: OptimizerOptions = field(default_factory=OptimizerOptions)


# What may differ on resumption; the rest makes the run what it is.
CHANGEABLE = (
    "data",
    "device",
    "workers",
    "steps",
    "stop_after",
    "evaluate_every",
    "evaluate_characters",
    "sample_every",
    "sample_length",
    "snapshots",
)

GROUPS = {"run": RunOptions, "architecture": ModelOptions, "optimization": OptimizerOptions}

_NANOGPT = {
    # nanoGPT's config/train_shakespeare_char.py and the defaults of its train.py.
    "positions": "learned",
    "activation": "gelu",
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
        "dim": 384,
        "block_size": 256,
        "dropout": 0.2,
    },
}


def describe_presets():
    """What each preset differs in from the defaults, a line each.

    >>> print(describe_presets().splitlines()[0])
    fast: the defaults
    """
    return "\n\n".join(
        f"{name}: " + (" ".join(_spell(k, v) for k, v in options.items()) or "the defaults")
        for name, options in PRESETS.items()
    )


def _spell(name, value):
    """An option with its value as the command line takes it."""
    if isinstance(value, bool):
        return option(name if value else f"no_{name}")
    return f"{option(name)} {value}"


# Options that a configuration file may still call by a former name.
FORMER_NAMES = {"normalisation": "norm_kind"}


def make_config(options=None, **more):
    """A checked configuration from a flat dict of options, above the preset it names.

    Raises:
        InputError: for a name that is no option, a wrong type or a value out of range.

    >>> make_config(preset="nanogpt-cpu", steps=10).optimization.learning_rate
    0.001
    """
    options = {**(options or {}), **more}
    preset = options.get("preset", "fast")
    if not isinstance(preset, str) or preset not in PRESETS:
        raise InputError(f"unknown preset {shown(preset)}: expected one of {', '.join(PRESETS)}")
    options = {**PRESETS[preset], **options}
    # JSON takes Python's numbers only.
    options = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in options.items()
    }
    groups = {}
    for group, owner in GROUPS.items():
        names = [one.name for one in dataclasses.fields(owner)]
        given = {name: options.pop(name) for name in names if name in options}
        groups[group] = as_annotated(owner(**given))
    if options:
        unknown = min(options)
        names = [one.name for owner in GROUPS.values() for one in dataclasses.fields(owner)]
        hint = did_you_mean(unknown, names) or "tinyattn train --help lists them"
        raise InputError(f"unknown option {shown(unknown)}: {hint}")
    config = TrainConfig(**groups)
    check_config(config)
    return config


def flatten(config):
    """All options of ``config`` as a flat dict.

    >>> flatten(TrainConfig())["heads"]
    4
    """
    return flatten_groups(config.run, config.architecture, config.optimization)


def identity_of(config):
    """The options that make a run what it is: all but those that may differ on resumption, as a flat dict.

    >>> "heads" in identity_of(TrainConfig()), "steps" in identity_of(TrainConfig())
    (True, False)
    """
    return {
        name: value
        for name, value in flatten(config).items()
        if name not in CHANGEABLE and name != "out"
    }


def flatten_groups(*groups):
    """The options of several groups as one dict."""
    return {name: value for group in groups for name, value in dataclasses.asdict(group).items()}


def config_to_json(config):
    """``config`` as JSON, grouped as the dataclasses are."""
    return json.dumps(dataclasses.asdict(config), indent=2) + "\n"


def options_from_json(text, name="the configuration"):
    """The flat dict of options in JSON text, whether grouped (as in ``config.json``) or flat.

    Raises:
        InputError: where the text is not JSON of that form.

    >>> options_from_json('{"run": {"steps": 5}, "heads": 2}')
    {'steps': 5, 'heads': 2}
    """
    content = parse_json(text, name)
    if not isinstance(content, dict):
        raise InputError(f'{name} must hold a JSON object, such as {{"steps": 100}}')
    options = {}
    for key, value in content.items():
        if key == "sha256":  # the digest in a run's own config.json (storage/seal.py)
            continue
        if key in GROUPS and isinstance(value, dict):
            options.update(value)
        else:
            options[key] = value
    return {FORMER_NAMES.get(name, name): value for name, value in options.items()}


def check_config(config):
    """Raise an InputError for the first option at odds with another."""
    with _as_input_error():
        config.architecture.check(option)


def as_annotated(group):
    """A dataclass of options, each checked against its annotation and made what that says.

    An integer where a number is expected becomes a float, ``~`` in a path the home directory, and a list of one path
    that path.

    Raises:
        InputError: with the option's name, the values it may have, and the value given.

    >>> as_annotated(OptimizerOptions(clip=1)).clip
    1.0
    """
    with _as_input_error():
        check_ranges(group, option)
    values = {}
    for name, hint in typing.get_type_hints(type(group), include_extras=True).items():
        value = getattr(group, name)
        if isinstance(value, int) and not isinstance(value, bool) and _has(hint, float):
            values[name] = as_float(value)
        elif _has(hint, IsPath) and isinstance(value, str):
            values[name] = expand_path(value, option(name))
        elif _has(hint, IsPath) and value is not None:
            paths = tuple(expand_path(path, option(name)) for path in value)
            values[name] = paths if len(paths) > 1 else paths[0]
    return dataclasses.replace(group, **values)


def _has(hint, kind):
    """Whether a type is, or has among its members and notes, ``kind`` or an instance of it."""
    parts = typing.get_args(hint) if typing.get_origin(hint) else ()
    return hint is kind or isinstance(hint, kind) or any(_has(part, kind) for part in parts)


@contextlib.contextmanager
def _as_input_error():
    try:
        yield
    except (TypeError, ValueError) as error:
        raise InputError(str(error)) from None


def option(name):
    """The spelling of an option on the command line: ``block_size`` is ``--block-size``."""
    return "--" + name.replace("_", "-")
