"""The options of a training run: name, type, range, default, unit and help of each.

The command line, its help, configuration files and a run's ``config.json`` are generated from these dataclasses. The
docstring of a field is its help, the word in brackets at its end the unit. The defaults are the preset ``fast``; the
other presets (``presets.py``) are differences from it.
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
from ..models.config import ConvolutionOptions, GPTOptions
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
from .presets import PRESETS


@dataclass(frozen=True, kw_only=True)
class ModelOptions(GPTOptions, ConvolutionOptions):
    """Model options; see ``models/config.py`` for most of them."""

    model: Literal["gpt", "encoder", "rnn", "cnn"] = "gpt"
    """Architecture; gpt and encoder are transformers, rnn and cnn are baselines."""


@dataclass(frozen=True)
class OptimizerOptions:
    """Optimizer options."""

    optimizer: Literal["muon", "adamw"] = "muon"
    """muon: Muon for the matrices of the blocks, AdamW for all other parameters; adamw: AdamW for all."""

    learning_rate: Positive = 0.012
    """Peak learning rate of AdamW [per step]."""

    muon_learning_rate: Positive = 0.03
    """Peak learning rate of Muon [per step]."""

    decay: Literal["linear", "cosine", "none"] = "linear"
    """Learning-rate decay schedule."""

    decay_share: Share = 0.5
    """Fraction of the steps, at the end, in which the learning rate decays [of 1]."""

    decay_steps: Count | None = None
    """Step at which the decay ends; the number of steps by default [steps]."""

    final_share: Share = 0.0
    """Final learning rate, as a fraction of the peak [of 1]."""

    warmup_steps: CountOrZero = 10
    """Warmup: steps in which the learning rate rises from 0 [steps]."""

    beta1: Probability = 0.9
    """AdamW's decay rate of the first moment, the mean of the gradients [per step]."""

    beta2: Probability = 0.99
    """AdamW's decay rate of the second moment, the mean of their squares [per step]."""

    weight_decay: NotNegative = 0.1
    """AdamW's decoupled weight decay, times the learning rate; vectors are excluded [per step]."""

    muon_momentum: Probability = 0.9
    """Muon's Nesterov momentum [per step]."""

    muon_polynomials: Literal["constant", "minimax"] = "constant"
    """Newton-Schulz iterations of Muon: constant: five with the same polynomial; minimax: four, each with the best one,
    at a fifth less time."""

    muon_weight_decay: NotNegative = 0.0
    """Muon's decoupled weight decay, times the learning rate [per step]."""

    clip: NotNegative = 1.0
    """Gradient clipping: largest norm of all gradients together; 0: no clipping [norm]."""

    freeze: str | None = None
    """Parameters that are not trained: patterns of names, separated by commas, such as `embedding.*,blocks.0.*`."""


@dataclass(frozen=True)
class RunOptions:
    """Run options."""

    data: PathText | tuple[PathText, ...] = "pydoc"
    """Text to train on: one or more files, concatenated; - for standard input; pydoc (Python's own documentation); or
    shakespeare (downloaded)."""

    tokenizer: Literal["characters", "bytes", "bpe"] = "characters"
    """Tokens: characters; bytes, 256 for text in any script; or bpe, frequent sequences of bytes, learned from the
    training part of the text (needs the tokenizers library)."""

    vocabulary_size: Count | None = None
    """Largest number of tokens of --tokenizer bpe, at least 257; 1024 by default [tokens]."""

    preset: Literal["fast", "gpt2-shaped", "finetune", "nanogpt-cpu", "nanogpt-gpu"] = "fast"
    """Preset that the other defaults come from; with --from, finetune by default."""

    from_: PathText | None = None
    """Start from a trained model instead of random weights, with its tokenizer: the folder of a GPT-2, or a run
    [directory]."""

    out: PathText | None = None
    """Directory to write the run to; a new one under runs/ by default [path]."""

    steps: Count = 300
    """Optimizer steps in total [steps]."""

    batch_size: Count = 12
    """Batch size: windows of text per step [windows]."""

    seed: Seed = 1337
    """Seed of all random streams: weights, order of the text, dropout, samples."""

    device: str | None = None
    """Device to train on: cpu, cuda, cuda:N or strict; TINYATTN_DEVICE or cpu by default."""

    workers: WorkerCount | None = None
    """Workers that share each batch: processes on Linux, otherwise threads. By default the CPU cores this process may
    use: the least of its CPU affinity, the container's CPU quota, and OMP_NUM_THREADS. Results depend on the number in
    the last digits [workers]."""

    dtype: Literal["float32", "float64"] = "float32"
    """Type of the parameters and activations."""

    precision: Literal["float32", "tf32", "float16"] = "float32"
    """Precision on a GPU: tf32 for matrix products; float16 for parameters and activations, with master weights and
    optimizer state in float32."""

    evaluate_every: Count = 100
    """Evaluate and save every so many steps [steps]."""

    evaluate_characters: Count = 1_000_000
    """Largest number of characters or tokens of the validation split per evaluation, the same ones each time, evenly
    spaced [tokens]."""

    sample_every: CountOrZero = 100
    """Print a text sample every so many steps; 0: never [steps]."""

    sample_length: Count = 200
    """Length of a text sample [tokens]."""

    snapshots: FileCount = 0
    """Number of snapshots of the model to keep, evenly spaced from the first to the last step [files]."""

    stop_after: Count | None = None
    """Save and stop after so many steps of this call; the learning-rate schedule is unchanged [steps]."""


@dataclass(frozen=True)
class TrainConfig:
    """A training run: the three groups of options.

    >>> config = make_config(steps=100, layers=2)
    >>> config.run.steps, config.architecture.layers, config.optimization.optimizer
    (100, 2, 'muon')
    """

    run: RunOptions = field(default_factory=RunOptions)
    architecture: ModelOptions = field(default_factory=ModelOptions)
    optimization: OptimizerOptions = field(default_factory=OptimizerOptions)


# Options that may change on resumption; the others identify the run.
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


def describe_presets():
    """The options of each preset that differ from the defaults, one line per preset.

    >>> print(describe_presets().splitlines()[0])
    fast: the defaults
    """
    return "\n\n".join(
        f"{name}: " + (" ".join(_spell(k, v) for k, v in options.items()) or "the defaults")
        for name, options in PRESETS.items()
    )


def _spell(name, value):
    """An option with its value as written on the command line."""
    if isinstance(value, bool):
        return option(name if value else f"no_{name}")
    return f"{option(name)} {value}"


# Names of options in runs and configuration files of earlier versions.
FORMER_NAMES = {"normalisation": "norm_kind"}
# Options whose default is not what earlier versions did without them, and the value that describes those versions.
FORMER_VALUES = {"previous_embedding": False}


def current_names(options):
    """A flat dict of options, with the present names for former ones."""
    return {FORMER_NAMES.get(name, name): value for name, value in options.items()}


def make_config(options=None, *, with_preset=True, **more):
    """Make a ``TrainConfig`` from a flat dict of options.

    Args:
        options, more: values by option name.
        with_preset: whether options that are not given have the values of the preset and of the model that ``from_``
            names, or else their defaults.

    Raises:
        InputError: for an unknown option, a wrong type or a value out of range.

    >>> make_config(preset="nanogpt-cpu", steps=10).optimization.learning_rate
    0.001
    """
    options = {**(options or {}), **more}
    if with_preset:
        options = given_options(options)
    # JSON represents Python's numbers only.
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


def given_options(options):
    """The options of the preset, of the model that ``from_`` names, and ``options``, which override both; a flat dict.

    Raises:
        InputError: for an unknown preset, or a model that cannot be read or contradicts an option.

    >>> given_options({"preset": "gpt2-shaped", "bias": False})["bias"]
    False
    """
    source = options.get("from_")
    if isinstance(source, str):
        options = {"preset": "finetune", **options}
    preset = options.get("preset", "fast")
    if not isinstance(preset, str) or preset not in PRESETS:
        raise InputError(f"unknown preset {shown(preset)}: expected one of {', '.join(PRESETS)}")
    defaults = PRESETS[preset]
    if isinstance(source, str):  # another type is refused later, as for every option
        from .source import architecture_options

        defaults = {**defaults, **architecture_options(source, options, defaults)}
    elif preset == "finetune" and source is None:
        raise InputError("--preset finetune needs a trained model: give it with --from")
    return {**defaults, **options}


def flatten(config):
    """All options of ``config`` as a flat dict.

    >>> flatten(TrainConfig())["heads"]
    4
    """
    return flatten_groups(config.run, config.architecture, config.optimization)


def identity_of(config):
    """The options that identify a run, those that may not change on resumption, as a flat dict.

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
    """``config`` as JSON, with one object per group of options."""
    return json.dumps(dataclasses.asdict(config), indent=2) + "\n"


def options_from_json(text, name="the configuration"):
    """Parse JSON text with options, grouped (as in ``config.json``) or flat, into a flat dict.

    Raises:
        InputError: if the text is not JSON of that form.

    >>> options_from_json('{"run": {"steps": 5}, "heads": 2}')
    {'steps': 5, 'heads': 2}
    """
    content = parse_json(text, name)
    if not isinstance(content, dict):
        raise InputError(f'{name} must contain a JSON object, such as {{"steps": 100}}')
    options = dict(FORMER_VALUES) if isinstance(content.get("architecture"), dict) else {}
    for key, value in content.items():
        if key == "sha256":  # the digest in a run's config.json (storage/digests.py)
            continue
        if key in GROUPS and isinstance(value, dict):
            options.update(value)
        else:
            options[key] = value
    return current_names(options)


def check_config(config):
    """Raise an InputError for the first option that is incompatible with another."""
    with _as_input_error():
        config.architecture.check(option)
    run = config.run
    if run.vocabulary_size is not None and run.tokenizer != "bpe":
        raise InputError(
            f"--vocabulary-size is for --tokenizer bpe: leave it out, the vocabulary of {run.tokenizer} is given"
        )
    if run.vocabulary_size is not None and run.vocabulary_size < 257:
        raise InputError(
            f"--vocabulary-size {run.vocabulary_size}: expected at least 257, the 256 bytes and one merge"
        )


def as_annotated(group):
    """Check each option of a dataclass against its annotation, and convert it to the annotated type.

    An integer becomes a float if a float is expected, ``~`` in a path the home directory, and a list of one path that
    path.

    Raises:
        InputError: with the option's name, its valid values, and the given value.

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
    """Whether an annotation is ``kind`` or an instance of it, or has one among its members and metadata."""
    parts = typing.get_args(hint) if typing.get_origin(hint) else ()
    return hint is kind or isinstance(hint, kind) or any(_has(part, kind) for part in parts)


@contextlib.contextmanager
def _as_input_error():
    try:
        yield
    except (TypeError, ValueError) as error:
        raise InputError(str(error)) from None


def option(name):
    """The name of an option on the command line: ``--block-size`` for ``block_size``, ``--from`` for ``from_``."""
    return "--" + name.rstrip("_").replace("_", "-")
