"""Beginning a run, going on with one, and opening one to use its model."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from ..backend import Random, get_backend, use_random
from ..backend import device as default_device
from ..data import CharDataset, CharVocabulary, InputError
from ..data.corpus import CORPORA
from .build import build_model, build_optimizers, build_step, build_task
from .config import TrainConfig, flatten, make_config, option
from .parallel.mpi import Processes
from .parallel.threads import available_cores
from .storage.run_directory import RunDirectory, check_arrays
from .trainer import Trainer

# Each random stream is the seed's own child, so that one more draw in one moves no other.
STREAMS = ("weights", "batches", "masks", "dropout", "samples")

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


def begin(config, out=None, processes=None):
    """A new run: its directory made, its weights drawn, no step done.

    Args:
        config: ``TrainConfig``.
        out: its directory; by default ``config.run.out``, else a new one under ``runs/``.
        processes: ``Processes`` that train together; this one alone by default.

    Raises:
        InputError: for a text, device or directory that cannot be used.
    """
    processes = processes or Processes()
    check_device(config.run.device)
    config = _with_workers(config, processes.size)
    dataset = CharDataset.load(config.run.data, config.architecture.block_size)
    streams = {name: Random([config.run.seed, number]) for number, name in enumerate(STREAMS)}
    model = make_model(config, len(dataset.vocabulary), streams.pop("weights"))

    def create():
        path = out or config.run.out or new_directory(config)
        return RunDirectory.create(path, config, dataset.vocabulary)

    run = processes.from_first(create)
    return _trainer(config, run, dataset, model, streams, processes)


def resume(path, options=None, processes=None):
    """A run to go on with from its last state, to the last bit as if it had never stopped.

    Args:
        path: its directory.
        options: dict of options that now differ; only some may (``CHANGEABLE``).
        processes: ``Processes`` that train together; this one alone by default.

    Raises:
        InputError: for what is no run, an option that must not change, a text that is another now, or a
            checkpoint that is damaged or does not fit.
    """
    run = RunDirectory.open(path)
    config = _changed(run.config(), options or {})
    check_device(config.run.device)
    state = run.read_state("last")
    if state["step"] >= config.run.steps and state.get("looked_at", state["step"]) == state["step"]:
        raise InputError(
            f"the run {path} has done its {config.run.steps} steps: ask for more with --steps"
        )
    text = config.run.data
    if "data" not in (options or {}) and text not in CORPORA and not Path(text).exists():
        raise InputError(
            f"the text of the run {path}, {text}, from the directory that it began in, is not there: "
            f"give it with --data"
        )
    dataset = CharDataset.load(
        text, config.architecture.block_size, state["corpus"], run.vocabulary()
    )
    model = load_model(run, config, len(dataset.vocabulary), "last")
    streams = {name: Random(0) for name in STREAMS if name != "weights"}
    processes = processes or Processes()
    trainer = _trainer(config, run, dataset, model, streams, processes)
    arrays = run.read_optimizer("last")
    shapes = {name: array.shape for name, array in trainer.optimizers.state()[0].items()}
    check_arrays(shapes, arrays, str(run.path / "last" / "optimizer.safetensors"))
    trainer.optimizers.load_state(arrays, state["optimizer"])
    trainer.restore(state)
    if processes.is_first:
        run.write_config(config)
    return trainer


def _changed(config, options):
    values = flatten(config)
    for name, value in options.items():
        if value != values[name] and name not in CHANGEABLE:
            raise InputError(
                f"{option(name)} cannot change on resumption (the run has {values[name]!r}, given "
                f"{value!r}): leave it out, or begin a new run"
            )
    return make_config({**values, "stop_after": None, **options})


@dataclass(frozen=True)
class LoadedRun:
    """A run's model, ready to use."""

    model: object
    vocabulary: CharVocabulary
    config: TrainConfig
    step: int
    path: Path


def load_run(path, state="best", device=None):
    """The model of a run, in evaluation mode.

    Args:
        path: the run's directory.
        state: ``"best"`` or ``"last"``; where there is no best one yet, the last is taken.
        device: where to put the model; the default device if None.

    Raises:
        InputError: for what is no run, or a checkpoint that is damaged or does not fit.
    """
    run = RunDirectory.open(path)
    check_device(device)
    config = run.config()
    config = dataclasses.replace(config, run=dataclasses.replace(config.run, device=device))
    vocabulary = run.vocabulary()
    state = state if run.has_state(state) else "last"
    step = run.read_state(state)["step"]
    model = load_model(run, config, len(vocabulary), state).eval()
    return LoadedRun(model, vocabulary, config, step, run.path)


def load_model(run, config, vocabulary_size, state):
    """The model of one of a run's states, every tensor's name and shape checked first."""
    arrays = run.read_model(state)
    model = make_model(config, vocabulary_size, Random(0))
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    check_arrays(shapes, arrays, str(run.path / state / "model.safetensors"))
    model.load_state_dict(arrays)
    return model


def make_model(config, vocabulary_size, random):
    """A new model on the configuration's device, its weights drawn from ``random``."""
    try:
        with default_device(get_backend(config.run.device).device), use_random(random):
            return build_model(config, vocabulary_size)
    except ValueError as error:
        raise InputError(f"no model can be built with these options: {error}") from error


def _with_workers(config, processes):
    """The configuration with the number of workers written down: the sums of gradients depend on it."""
    if config.run.workers is not None:
        return config
    run = dataclasses.replace(config.run, workers=max(1, available_cores() // processes))
    return dataclasses.replace(config, run=run)


def check_device(name):
    """Raise an InputError where the device cannot be used."""
    try:
        get_backend(name)
    except (RuntimeError, ValueError, ImportError) as error:
        raise InputError(f"--device: {error}") from None


def new_directory(config):
    """A path under ``runs/`` that is not taken, named after the text and the preset."""
    base = Path("runs", f"{Path(config.run.data).stem}-{config.run.preset}")
    path, number = base, 2
    while path.exists():
        path = base.with_name(f"{base.name}-{number}")
        number += 1
    return path


def _trainer(config, run, dataset, model, streams, processes):
    if config.run.batch_size < processes.size:
        raise InputError(
            f"--batch-size {config.run.batch_size} is less than the {processes.size} processes that share it"
        )
    model.train()
    optimizers = build_optimizers(model, config)
    task = build_task(model, config)
    step_function = build_step(model, config, processes.communicator)
    for optimizer in optimizers.members.values():
        step_function.work_for(optimizer)
    return Trainer(config, run, dataset, model, task, optimizers, step_function, streams, processes)
