"""Start a run, or resume one."""

import dataclasses
import itertools
import os
import sys
import warnings
from pathlib import Path

from ..backend import Random, get_backend
from ..data import InputError, TextDataset
from ..data.corpus import CORPORA, STANDARD_INPUT, corpus_names, corpus_stem, located
from .build import build_optimizers, build_step, build_task, freeze_parameters
from .config import CHANGEABLE, flatten, make_config, option
from .loading import check_device, make_model, model_with
from .parallel import available_cores
from .parallel.mpi import ProcessGroup
from .precision import check_precision, parameter_dtype
from .source import Source
from .storage.arrays import check_arrays
from .storage.errors import DamagedFileError, RunWarning
from .storage.run_directory import RunDirectory
from .storage.states import evaluated_step
from .trainer import Trainer

# Independent random streams derived from the run's seed: a draw from one does not change the others.
STREAMS = ("weights", "batches", "masks", "dropout", "samples")


class FinishedRunError(InputError):
    """All steps of the run are done.

    Attributes:
        run: the ``RunDirectory``.
    """

    def __init__(self, run, steps):
        super().__init__(
            f"the run {run.path} has done its {steps} steps: ask for more with --steps"
        )
        self.run = run


def begin(config, out=None, processes=None, watch=None, budget=None):
    """Start a run: create and lock its directory, initialize the weights. Returns a ``Trainer`` at step 0.

    Args:
        config: ``TrainConfig``.
        out: the run's directory; by default ``config.run.out``, or a new one under ``runs/``.
        processes: a ``ProcessGroup``, the MPI processes that train together; this one alone by default.
        watch: called with ``(done, total)``, numbers of characters, while a long text is encoded.
        budget: a ``TimeBudget``, which replaces ``config``, its ``first_config``, by one for its time.

    Raises:
        InputError: if the text, device or directory cannot be used, or another process has locked the directory.

    >>> import tempfile
    >>> from tinyattn.train import make_config
    >>> config = make_config(steps=2, layers=1, heads=1, dim=8, block_size=8, sample_every=0)
    >>> trainer = begin(config, tempfile.mkdtemp())
    >>> trainer.step, trainer.run.has_saved_state()
    (0, False)
    """
    processes = processes or ProcessGroup()
    check_device(config.run.device)
    check_precision(config.run)
    config = _with_workers(config, processes.size)
    source = None if config.run.from_ is None else Source(config.run.from_)
    dataset = TextDataset.load(
        config.run.data,
        config.architecture.block_size,
        vocabulary=source and source.tokenizer,
        standard_input=_standard_input(processes),
        tokenizer=config.run.tokenizer,
        vocabulary_size=config.run.vocabulary_size,
        watch=watch,
    )
    # Absolute paths, so that the run can be resumed from another working directory.
    paths = {"data": located(config.run.data), "from_": source and os.path.abspath(source.path)}
    config = dataclasses.replace(config, run=dataclasses.replace(config.run, **paths))
    if budget is not None:

        def make_trainer(config):
            return _trainer(
                config, None, dataset, *_model_and_streams(config, dataset, source), processes
            )

        config = budget.choose(config, dataset, make_trainer, processes)
    model, streams = _model_and_streams(config, dataset, source)

    def create():
        path = out or config.run.out or new_directory(config)
        return RunDirectory.create(path, config, dataset.vocabulary)

    run = processes.broadcast(create)
    try:
        return _trainer(config, run, dataset, model, streams, processes)
    except BaseException:
        run.unlock()
        raise


def _model_and_streams(config, dataset, source):
    """A model and the random streams of training from the seed; the weights of a ``Source`` if there is one."""
    streams = {name: Random([config.run.seed, number]) for number, name in enumerate(STREAMS)}
    weights = streams.pop("weights")
    if source is None:
        model = make_model(config, len(dataset.vocabulary), weights)
    else:
        dtype = parameter_dtype(config.run, get_backend(config.run.device).device)
        arrays = source.arrays(config.architecture.block_size, dtype)
        model = model_with(config, len(dataset.vocabulary), arrays, source.path)
    return model, streams


def resume(path, options=None, processes=None, watch=None):
    """Resume a run from its last state, bit-identically to a run that was not interrupted. Returns a ``Trainer``.

    If the last state is missing, the run is resumed from the best one, with a ``RunWarning``.

    Args:
        path: the run's directory.
        options: dict of options to change; only those in ``CHANGEABLE`` may.
        processes: a ``ProcessGroup``, the MPI processes that train together; this one alone by default.
        watch: called with ``(done, total)``, numbers of characters, while a long text is encoded.

    Raises:
        InputError: if there is no run, another process trains it, an option may not change, the text has changed, or
            the saved state is damaged or does not match the model.
        FinishedRunError: if all steps are done.

    >>> import tempfile
    >>> from tinyattn.train import begin, make_config
    >>> options = dict(layers=1, heads=1, dim=8, block_size=8, evaluate_characters=80, sample_every=0)
    >>> trainer = begin(make_config(steps=2, **options), tempfile.mkdtemp())
    >>> trainer.train()
    True
    >>> resume(trainer.run.path, {"steps": 4}).step
    2
    """
    processes = processes or ProcessGroup()

    def open_locked():
        run = RunDirectory.open(path)
        run.lock()
        return run

    run = processes.broadcast(open_locked)
    try:
        return _resume(run, options or {}, processes, watch)
    except BaseException:
        run.unlock()
        raise


def _resume(run, options, processes, watch):
    if "data" in options:
        options = {**options, "data": located(options["data"])}
    config = _changed(run.config(), options)
    check_device(config.run.device)
    check_precision(config.run)
    name = "last"
    if not run.has_state("last") and run.has_state("best"):
        name = "best"
        warnings.warn(
            f"the state 'last' of the run {run.path} is missing: resuming from 'best'",
            RunWarning,
            stacklevel=3,
        )
    saved = run.read(name)
    state, file = saved.values, run.path / name / "state.json"
    steps = config.run.steps
    step = state["step"]
    if step > steps or step == steps == evaluated_step(state):
        raise FinishedRunError(run, steps)
    if "data" not in options:
        _check_text_is_there(run.path, config.run.data)
    run.check_metrics(saved.metrics)
    try:
        identity = {key: state["corpus"][key] for key in ("sha256", "characters")}
    except (KeyError, TypeError) as error:
        raise _damaged(file, error) from None
    vocabulary = run.vocabulary()
    dataset = TextDataset.load(
        config.run.data,
        config.architecture.block_size,
        identity,
        vocabulary,
        _standard_input(processes),
        watch=watch,
    )
    file_of_model = run.path / name / "model.safetensors"
    model = model_with(config, len(vocabulary), saved.model, file_of_model)
    streams = {name: Random(0) for name in STREAMS if name != "weights"}
    trainer = _trainer(config, run, dataset, model, streams, processes)
    expected, _ = trainer.optimizers.state()
    check_arrays(expected, saved.optimizer, str(run.path / name / "optimizer.safetensors"))
    try:
        trainer.optimizers.load_state(saved.optimizer, state["optimizer"])
        trainer.restore(state, saved.metrics)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise _damaged(file, error) from error
    if processes.is_first:
        run.write_config(config)
    return trainer


def _check_text_is_there(path, data):
    for name in corpus_names(data):
        if name == STANDARD_INPUT:
            raise InputError(
                f"the text of the run {path} came from standard input: give it again with --data"
            )
        if name not in CORPORA and not Path(name).exists():
            start = "" if Path(name).is_absolute() else " (relative to where the run started)"
            raise InputError(
                f"the text of the run {path}, {name}{start}, is missing: give it with --data"
            )


def _standard_input(processes):
    """Standard input for ``--data -``; None for several processes, which could not each read it."""
    return sys.stdin if processes.size == 1 else None


def baselines_of(run):
    """The unigram and bigram losses on the evaluated text of a ``RunDirectory``; None if the text is missing."""
    config = run.config()
    identity = run.read_state("last" if run.has_state("last") else "best")["corpus"]
    try:
        block_size = config.architecture.block_size
        dataset = TextDataset.load(config.run.data, block_size, identity, run.vocabulary())
        return dataset.evaluated(config.run.evaluate_characters).baselines
    except InputError:
        return None


def _damaged(file, error):
    return DamagedFileError(f"{file} is damaged ({type(error).__name__}: {error})")


def _changed(config, options):
    values = flatten(config)
    for name, value in options.items():
        if value != values[name] and name not in CHANGEABLE:
            raise InputError(
                f"{option(name)} cannot change on resumption (the run has {values[name]!r}, given "
                f"{value!r}): leave it out, or start a new run"
            )
    return make_config({**values, "stop_after": None, **options}, with_preset=False)


def _with_workers(config, processes):
    """The configuration with an explicit number of workers: the rounding of gradients depends on it."""
    if config.run.workers is not None:
        return config
    run = dataclasses.replace(config.run, workers=max(1, available_cores() // processes))
    return dataclasses.replace(config, run=run)


def new_directory(config):
    """Create a directory under ``runs/``, named after the text and the preset, and return its path."""
    base = Path("runs", f"{corpus_stem(config.run.data)}-{config.run.preset}")
    for number in itertools.count(1):
        path = base if number == 1 else base.with_name(f"{base.name}-{number}")
        try:
            path.mkdir(parents=True)  # fails if another process has just created it
            return path
        except FileExistsError:
            if not path.parent.is_dir():  # runs itself is a file
                raise


def _trainer(config, run, dataset, model, streams, processes):
    if config.run.batch_size < processes.size:
        raise InputError(
            f"--batch-size {config.run.batch_size} is less than the {processes.size} processes that share it"
        )
    model.train()
    freeze_parameters(model, config.optimization.freeze)
    optimizers = build_optimizers(model, config)
    task = build_task(model, config)
    step_function = build_step(model, config, optimizers, processes.communicator)
    return Trainer(config, run, dataset, model, task, optimizers, step_function, streams, processes)
