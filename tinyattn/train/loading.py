"""Load the model and the tokenizer of a run, or of a GPT-2 in the format of Hugging Face."""

import dataclasses
import itertools
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..backend import Random, get_backend, use_random
from ..backend import device as default_device
from ..data import InputError, Tokenizer, load_tokenizer
from ..models import GPT
from ..models.huggingface import is_folder
from ..nn.parameter import without_memory
from ..nn.placement import adopt
from ..sampling import default_slide, generate
from .build import build_model
from .config import TrainConfig
from .storage.arrays import check_arrays, check_finite
from .storage.errors import RunWarning
from .storage.run_directory import RunDirectory


@dataclass(frozen=True)
class LoadedModel:
    """A model in eval mode and its tokenizer, from ``path``."""

    model: object
    vocabulary: Tokenizer
    path: Path

    def generate(self, prompt="", length=500, **options):
        """Generate text: a string, the prompt and its continuation.

        Args:
            prompt, length, options: as for ``stream``.
        """
        with one_thread():
            return "".join(self.stream(prompt, length, **options))

    def stream(
        self,
        prompt="",
        length=500,
        *,
        temperature=0.8,
        top_k=None,
        top_p=None,
        seed=None,
        unknown="error",
        slide=None,
    ):
        """Generate text as a stream: an iterator over the prompt and the text of each generated token.

        Args:
            prompt: the text to continue; if empty, an end-of-text token or a line break if the vocabulary has one.
            length: number of tokens to generate; the text ends earlier at an end-of-text token.
            temperature, top_k, top_p: as in ``tinyattn.sampling.sample_probabilities``.
            seed: seed of the random stream; by default each call generates another text.
            unknown: ``"skip"`` ignores characters of the prompt that are not in the vocabulary.
            slide: as in ``tinyattn.sampling.ContextReader``; by default ``default_slide`` of the block size.

        Raises:
            InputError: if the model is an encoder, or a character of the prompt is not in the vocabulary.
            ValueError: for an argument out of range.
        """
        if not hasattr(self.model, "cache"):
            raise InputError(
                f"{self.path} contains an encoder, which predicts masked characters and cannot generate text: "
                f"give a run of another --model"
            )
        vocabulary = self.vocabulary
        ids = vocabulary.encode(prompt, unknown)
        known = vocabulary.decode(ids)
        if prompt and not known:
            raise InputError("no character of the prompt is known to the model: give another one")
        ids = generate(
            self.model,
            ids if known else vocabulary.encode(vocabulary.start),
            length,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            random=Random(seed),
            slide=slide or default_slide(self.model.config.block_size),
            stop=vocabulary.end_of_text,
        )
        return itertools.chain([known], vocabulary.stream(ids))


@dataclass(frozen=True)
class LoadedRun(LoadedModel):
    """A run's model in eval mode; ``state`` is the name of the saved state it was loaded from."""

    config: TrainConfig
    step: int
    state: str


def one_thread():
    """A context in which BLAS uses one thread: the matrix products of a single character are too small for more."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, "blas")


def load_model(path, state=None, device=None):
    """Load a model for use: a ``LoadedRun`` of a run, or a ``LoadedModel`` of a GPT-2.

    Args:
        path: the directory of a run, or a folder in the format of Hugging Face (see ``GPT.from_pretrained``) with a
            tokenizer.
        state, device: as for ``load_run``; a folder has no states.

    Raises:
        InputError: if neither can be loaded, or if the tokenizer of a folder does not fit its model.
    """
    if not is_folder(path):
        return load_run(path, state, device)
    if state is not None:
        raise InputError(
            f"{path} is a pretrained model and has no state {state!r}: leave out --state"
        )
    check_device(device)
    model = GPT.from_pretrained(path, device=device, dropout=0.0)
    return LoadedModel(model, folder_tokenizer(path, model.config), Path(path))


def folder_tokenizer(path, config):
    """The tokenizer in a folder of a model with the ``GPTConfig`` ``config``; an InputError if it does not fit."""
    tokenizer = load_tokenizer(path)
    if len(tokenizer) != config.vocabulary_size:
        raise InputError(
            f"{path} has a tokenizer with {len(tokenizer):,} {tokenizer.unit}s, and its model has a vocab_size of "
            f"{config.vocabulary_size:,}: expected the tokenizer that the model was trained with"
        )
    return tokenizer


def load_run(path, state=None, device=None):
    """Load the model of a run, in eval mode; a ``LoadedRun``.

    Args:
        path: the run's directory.
        state: ``"best"`` or ``"last"``; by default the best, or the last with a ``RunWarning`` if there is no best one
            yet.
        device: the device of the model; the default device if None.

    Raises:
        InputError: if there is no run or no such state, or the state is damaged or does not match the model.

    >>> import tempfile
    >>> from tinyattn.train import begin, make_config
    >>> options = dict(layers=1, heads=1, dim=8, block_size=8, evaluate_characters=80, sample_every=0)
    >>> trainer = begin(make_config(steps=2, **options), tempfile.mkdtemp())
    >>> trainer.train()
    True
    >>> loaded = load_run(trainer.run.path)
    >>> loaded.step, len(loaded.generate("the ", length=8, seed=0))
    (2, 12)
    """
    run = RunDirectory.open(path)
    check_device(device)
    config = run.config()
    config = dataclasses.replace(config, run=dataclasses.replace(config.run, device=device))
    if state is None:
        state = "best"
        if not run.has_state("best") and run.has_state("last"):
            state = "last"
            warnings.warn(
                f"the run {run.path} was not evaluated yet and has no state 'best': using 'last'",
                RunWarning,
                stacklevel=2,
            )
    saved = run.read(state, optimizer=False)
    vocabulary = run.vocabulary()
    file = run.path / state / "model.safetensors"
    model = model_with(config, len(vocabulary), saved.model, file).eval()
    return LoadedRun(model, vocabulary, run.path, config, saved.values["step"], state)


def load_snapshot(model, run, step):
    """Load the snapshot of ``step`` in a ``RunDirectory`` into a model of that run."""
    arrays = run.read_snapshot(step)
    _check(model, arrays, run.snapshot_path(step))
    model.load_state_dict(arrays)


def make_model(config, vocabulary_size, random):
    """Make the model of a ``TrainConfig`` on its device, with weights drawn from ``random``."""
    try:
        with default_device(get_backend(config.run.device).device), use_random(random):
            return build_model(config, vocabulary_size)
    except ValueError as error:
        raise InputError(f"no model can be built with these options: {error}") from error


def model_with(config, vocabulary_size, arrays, source):
    """Make the model of a ``TrainConfig`` on its device with given weights.

    Args:
        config: a ``TrainConfig``.
        vocabulary_size: number of tokens.
        arrays: dict of parameter name to array; those that can be written to become the memory of the model.
        source: where the arrays come from, for error messages.

    Raises:
        InputError: for a tensor that is missing, unknown, not finite, or of another shape or dtype.
    """
    with without_memory():
        model = make_model(config, vocabulary_size, Random(0))
    _check(model, arrays, source)
    for name, parameter in model.named_parameters():
        adopt(parameter, np.require(arrays[name], requirements="W"))
    return model.to(device=get_backend(config.run.device).device)


def _check(model, arrays, source):
    """Check names, shapes, dtypes and values of all arrays of a model."""
    check_arrays(dict(model.named_parameters()), arrays, str(source))
    check_finite(arrays, str(source))


def check_device(name):
    """Raise an InputError if the device cannot be used."""
    try:
        get_backend(name)
    except (RuntimeError, ValueError, ImportError) as error:
        raise InputError(f"--device: {error}") from None
