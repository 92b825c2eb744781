"""The trained model that a run starts from (``--from``): the folder of a GPT-2, or another run."""

import dataclasses
from functools import cached_property
from pathlib import Path

import numpy as np

from ..data import InputError
from ..data.paths import expand_path
from ..error_messages import shown
from ..models.huggingface import is_folder, read_arrays, read_settings
from .config import ModelOptions, option
from .loading import folder_tokenizer
from .storage.run_directory import RunDirectory

# Options of a model that do not change the shapes of its parameters, or only shorten the table of positions.
VARIABLE = ("block_size", "dropout", "attention", "attention_options", "window", "global_tokens")


class Source:
    """A trained model: its options, tokenizer and weights.

    Args:
        path: the folder of a GPT-2, or the directory of a run, whose best state is used.

    Raises:
        InputError: if it is neither, or cannot be read.
    """

    def __init__(self, path):
        self.path = Path(expand_path(path, "--from"))
        self.run = None if is_folder(self.path) else RunDirectory.open(self.path)

    @cached_property
    def options(self):
        """The options of the model and of its tokenizer, a flat dict."""
        options = {"tokenizer": self.tokenizer.kind, "vocabulary_size": None}
        if self.run is not None:
            config = self.run.config()
            options["vocabulary_size"] = config.run.vocabulary_size
            return {**options, **dataclasses.asdict(config.architecture)}
        settings = {**dataclasses.asdict(ModelOptions()), **dataclasses.asdict(self._settings)}
        return {**settings, "model": "gpt", **options}

    @cached_property
    def _settings(self):
        return read_settings(self.path, dropout=0.0)

    @cached_property
    def tokenizer(self):
        """The tokenizer of the model."""
        if self.run is not None:
            return self.run.vocabulary()
        return folder_tokenizer(self.path, self._settings)

    def arrays(self, block_size, dtype):
        """The weights, a dict of parameter name to array of ``dtype``; of learned positions, the first ones."""
        if self.run is not None:
            name = "best" if self.run.has_state("best") else "last"
            arrays = self.run.read(name, optimizer=False).model
        else:
            arrays = read_arrays(self.path)
        if "positions.weight" in arrays:
            arrays["positions.weight"] = arrays["positions.weight"][:block_size]
        return {name: array.astype(np.dtype(dtype), copy=False) for name, array in arrays.items()}


def architecture_options(path, given, defaults):
    """The options of the model in ``path``, and of its tokenizer, for a run that starts from it.

    Args:
        path: as for ``Source``.
        given: dict of the options that were given explicitly.
        defaults: dict of the preset's options.

    Raises:
        InputError: if a given option contradicts the model.
    """
    options = Source(path).options
    for name in given.keys() & options.keys() - {*VARIABLE}:
        if given[name] != options[name]:
            theirs = "its own" if options[name] is None else shown(options[name])
            raise InputError(
                f"{option(name)} {shown(given[name])} contradicts the model in {path}, which has {theirs}: leave it out"
            )
    longest = options["block_size"]
    wanted = given.get("block_size", min(defaults.get("block_size", longest), longest))
    if isinstance(wanted, int) and wanted > longest:
        raise InputError(
            f"{option('block_size')} must be at most {longest}, the block size of the model in {path}, given {wanted}"
        )
    return {**options, "block_size": wanted, "dropout": defaults.get("dropout", 0.0)}
