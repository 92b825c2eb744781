"""A trial: training steps, an evaluation and a sample of a candidate, to measure what a run costs on this machine."""

import statistics
import time
from dataclasses import dataclass

from ...sampling import generate
from ..evaluation import evaluate
from ..parallel.mpi import rank_key

_LEAST_STEPS, _MOST_STEPS = 2, 50  # timed steps
_LONG = 10  # a first step that takes this many times the time for a trial is the only one
_SAMPLED_TOKENS = 8
_EVALUATED_TOKENS = 4096
_FORWARD_SHARE = 1 / 3  # of a step's time; backward takes twice as long as forward

# Bytes per second that saved states are written with, and seconds per state: a slow disk.
_WRITTEN_BYTES, _SECONDS_PER_STATE = 2e8, 0.03


@dataclass(frozen=True)
class Costs:
    """What a run costs: seconds per training step, evaluated token, sampled token and saved state."""

    step: float
    evaluated_token: float
    sampled_token: float
    state: float


def measure(trainer, seconds):
    """Measure the ``Costs`` of a run.

    The steps are those of ``Trainer.train_step``, with the same executor. All processes of the run must call this.

    Args:
        trainer: a ``Trainer`` without a run, whose model and random streams are used for nothing else.
        seconds: how long the timed steps may take; two are timed in any case, unless the first one takes very long.
    """
    try:
        step = _seconds_per_step(trainer, seconds)
        processes = trainer.processes
        return processes.broadcast(
            lambda: Costs(
                step,
                _seconds_per_evaluated_token(trainer, step, seconds),
                _seconds_per_sampled_token(trainer),
                _seconds_per_state(trainer),
            )
        )
    finally:
        trainer.step_function.executor.close()


def _seconds_per_step(trainer, seconds):
    for optimizer in trainer.optimizers.members.values():
        for group in optimizer.param_groups:
            group["lr"] = 0.0  # the weights stay finite, whatever the given learning rate
    first = _timed_step(trainer)  # it also forks the workers and allocates memory
    if trainer.processes.any(first > _LONG * seconds):
        return first
    times = []
    while True:
        times.append(_timed_step(trainer))
        enough = len(times) >= _LEAST_STEPS and sum(times) >= seconds
        if trainer.processes.any(enough or len(times) >= _MOST_STEPS):
            return statistics.median(times)


def _timed_step(trainer):
    start = time.perf_counter()
    _step(trainer)
    return time.perf_counter() - start


def _step(trainer):
    inputs, targets = trainer.batches.draw()
    if trainer.task is not None:
        inputs, targets = trainer.task(inputs, targets, trainer.streams["masks"])
    rows = trainer.processes.rows(len(inputs))
    key = rank_key(trainer.streams["dropout"].key(), trainer.processes.rank)
    loss = trainer.step_function(inputs[rows], targets[rows], key)
    norm = trainer.optimizers.clip()
    trainer.optimizers.step(trainer.step_function.executor)
    float(loss), float(norm)  # a GPU has finished the step only now


def _seconds_per_evaluated_token(trainer, step_seconds, seconds):
    config = trainer.config
    block_size = config.architecture.block_size
    expected = _FORWARD_SHARE * step_seconds / (block_size * config.run.batch_size)
    tokens = max(block_size, min(_EVALUATED_TOKENS, int(seconds / expected)))
    tokens = min(tokens, len(trainer.dataset.validation) - 1)
    elapsed = _timed_evaluation(trainer, tokens)
    if elapsed < seconds:  # the first evaluation also allocates memory
        elapsed = _timed_evaluation(trainer, tokens)
    return elapsed / tokens


def _timed_evaluation(trainer, tokens):
    start = time.perf_counter()
    evaluate(
        trainer.model,
        trainer.dataset.validation,
        trainer.config.architecture.block_size,
        trainer.task,
        trainer.step_function.executor,
        tokens=tokens,
    )
    return time.perf_counter() - start


def _seconds_per_sampled_token(trainer):
    if not hasattr(trainer.model, "cache"):
        return 0.0  # an encoder generates no text
    vocabulary = trainer.dataset.vocabulary
    start_ids, random = vocabulary.encode(vocabulary.start), trainer.streams["samples"]
    ids = generate(trainer.model, start_ids, 1 + _SAMPLED_TOKENS, random=random)
    next(ids)  # it also reads the weights
    start = time.perf_counter()
    for _ in ids:
        pass
    return (time.perf_counter() - start) / _SAMPLED_TOKENS


def _seconds_per_state(trainer):
    arrays, _ = trainer.optimizers.state()
    written = sum(
        array.nbytes for array in [*arrays.values(), *trainer.model.state_dict().values()]
    )
    return _SECONDS_PER_STATE + written / _WRITTEN_BYTES
