"""The training loop: steps, evaluations, samples, saved states.

Everything random is drawn on the host from streams of their own (order of the text, dropout, samples),
each started from the seed and saved with every state. An evaluation or a sample therefore never moves
the training along another path, and a resumed run goes on to the last bit.
"""

import math
import os
import time
from dataclasses import dataclass

import numpy as np

from ..data import Batches, InputError
from ..sampling import generate
from .evaluation import Stopped, evaluate, evaluated_characters
from .parallel.mpi import rank_key
from .storage.arrays import first_not_finite
from .storage.metrics import Metrics


class NonFiniteError(ArithmeticError):
    """A loss, a gradient or a weight is NaN or infinite; the last saved state is untouched."""


class DisplayError(Exception):
    """What shows the progress cannot be written to: a closed terminal, a log on a full disk."""


def show(method, *arguments):
    """Call a display's method.

    Raises:
        DisplayError: where it cannot write; an OSError would be taken for one of the run's own files.
    """
    try:
        return method(*arguments)
    except OSError as error:
        raise DisplayError(error.strerror or str(error)) from error


@dataclass(frozen=True)
class StepReport:
    """What a step measured."""

    step: int
    loss: float
    smoothed_loss: float
    learning_rate: float
    grad_norm: float
    tokens_per_second: float
    seconds: float
    seconds_left: float


@dataclass(frozen=True)
class EvaluationReport:
    """What an evaluation measured.

    ``loss`` is the mean over the batches of about the last ``loss_steps`` steps, each before its step: early on
    it lags behind what the model has learnt, and lies above the validation loss.
    ``validation_loss`` is that of ``characters`` of the validation part's ``validation_characters``.
    """

    step: int
    loss: float
    loss_steps: int
    validation_loss: float
    characters: int
    validation_characters: int
    best: bool
    baselines: dict
    seconds: float


class SmoothedLoss:
    """Exponential mean of the losses, the first ones weighted so that it does not start from 0."""

    span = 20  # about as many of the last losses are averaged
    keep = 1 - 1 / span

    def __init__(self, total=0.0, weight=0.0):
        self.total = total
        self.weight = weight

    def add(self, loss):
        """Take in a loss and return the mean."""
        self.total = self.keep * self.total + loss
        self.weight = self.keep * self.weight + 1
        return self.value

    @property
    def value(self):
        """The mean; infinite before the first loss."""
        return self.total / self.weight if self.weight else math.inf


class Trainer:
    """A run that can be trained on, from its first step or from a saved one.

    Args:
        config: ``TrainConfig``.
        run: ``RunDirectory`` to write to.
        dataset: ``CharDataset`` to train and validate on.
        model: a module in training mode.
        optimizers: ``Optimizers`` over the model's parameters.
        task: what makes inputs and targets of a batch, or None (``build_task``).
        step_function: ``BatchStep`` of the model.
        streams: dict of name to ``Random``: batches, masks, dropout, samples.
        processes: ``Processes`` that train together.
    """

    def __init__(
        self, config, run, dataset, model, task, optimizers, step_function, streams, processes
    ):
        self.config = config
        self.run = run
        self.dataset = dataset
        self.model = model
        self.task = task
        self.optimizers = optimizers
        self.step_function = step_function
        self.streams = streams
        self.processes = processes
        self.batches = Batches(
            dataset.train, config.architecture.block_size, config.run.batch_size, streams["batches"]
        )
        self.step = 0
        self.seconds = 0.0
        self._began = time.perf_counter()
        self.smoothed = SmoothedLoss()
        self.best_loss = math.inf
        self.best_step = None
        self._metrics = None  # open while training
        self._mark = None  # of the metrics, as the last state has it
        self.saved_step = None  # of the state that was saved or read last
        self._updating = False  # whether weights may be half updated
        self.looked_at = 0  # the last step after which what was due was evaluated and sampled

    # ---- the loop

    def train(self, display, should_stop=lambda: False):
        """Train to the last step, or until ``should_stop()``; save, and say whether it was finished.

        Args:
            display: what shows the progress (``cli/display.py``).
            should_stop: asked between two steps, and while it evaluates and samples; once true, it stays so. An
                evaluation that it ends is made up for when the run goes on.

        Raises:
            NonFiniteError: for a loss, gradient or weight that is not a number.
            DisplayError: where ``display`` cannot write; what was trained is saved.
            InputError: where the run's directory is gone.
            RuntimeError: for a second call: ``resume`` the run.
        """
        if self.processes.is_first and not self.run.is_locked:
            raise RuntimeError("this trainer has trained and given its run back: resume the run")
        try:
            return self._train(display, should_stop)
        finally:
            self.step_function.executor.close()
            self.run.unlock()

    def _train(self, display, should_stop):
        options = self.config.run
        end = options.steps
        if options.stop_after is not None:
            end = min(end, self.step + options.stop_after)
        path = self.run.path / "metrics.jsonl" if self.processes.is_first else os.devnull
        self._metrics = metrics = Metrics(path, keep=self.step, mark=self._mark)
        snapshots = snapshot_steps(options.steps, options.snapshots)
        self._began = time.perf_counter() - self.seconds
        try:
            if self.step == 0:
                self.save(["last"])
                self._snapshot(snapshots)
            self._evaluate_if_due(metrics, display, should_stop)
            while self.step < end and not self.processes.any(should_stop()):
                report = self.train_step()
                metrics.append(
                    report.step,
                    loss=report.loss,
                    learning_rate=report.learning_rate,
                    grad_norm=report.grad_norm,
                    tokens_per_second=report.tokens_per_second,
                    seconds=report.seconds,
                )
                show(display.step, report)
                self._snapshot(snapshots)
                self._evaluate_if_due(metrics, display, should_stop)
            if self.looked_at < self.step or not self._due(options.evaluate_every):
                self.save(["last"])
        except BrokenPipeError as error:  # of no file, so of what shows the progress
            self.save(["last"])
            raise DisplayError(str(error)) from error
        except (NonFiniteError, InputError, OSError):
            raise  # the last saved state is the good one, or cannot be replaced
        except Exception:
            if not self._updating:
                self.save(["last"])
            raise
        finally:
            metrics.close()
            self._metrics = None
        return self.finished

    @property
    def finished(self):
        """Whether the last step is done, and what was due after it."""
        return self.step >= self.config.run.steps and self.looked_at == self.step

    def _due(self, every):
        return every > 0 and (self.step % every == 0 or self.step == self.config.run.steps)

    def _evaluate_if_due(self, metrics, display, should_stop):
        """Evaluate, sample and save if they are due at this step; the first process does it."""
        if self.looked_at == self.step:
            return
        best = self.best_loss, self.best_step
        try:
            if self.processes.is_first:
                self._evaluate_and_sample(metrics, display, should_stop)
        except Stopped:
            self.best_loss, self.best_step = best
        else:
            self.looked_at = self.step

    def _evaluate_and_sample(self, metrics, display, should_stop):
        def watch(done, total):
            show(display.evaluating, self.step, done, total)
            if should_stop():
                raise Stopped

        options = self.config.run
        evaluation = self.evaluate(watch) if self._due(options.evaluate_every) else None
        can_write = hasattr(self.model, "cache")
        # Before the state is saved, which holds the stream that samples are drawn from.
        text = self.sample(should_stop) if can_write and self._due(options.sample_every) else None
        self.looked_at = self.step
        if evaluation is not None:
            metrics.append(
                self.step, val_loss=evaluation.validation_loss, seconds=evaluation.seconds
            )
            self.save(["best", "last"] if evaluation.best else ["last"])
            show(display.evaluation, evaluation)
        if text is not None:
            show(display.sample, self.step, text)

    def train_step(self):
        """One optimiser step; returns what it measured."""
        before = {name: stream.state for name, stream in self.streams.items()}
        inputs, targets = self.batches.draw()
        if self.task is not None:
            inputs, targets = self.task(inputs, targets, self.streams["masks"])
        rate = self.optimizers.set_learning_rate(self.step)
        began = time.perf_counter()
        rows = self.processes.rows(len(inputs))
        key = rank_key(self.streams["dropout"].key(), self.processes.rank)
        try:
            loss = self.step_function(inputs[rows], targets[rows], key)
        except Exception:
            # A worker was killed, say: the state before this step is whole, and can be saved.
            self._restore_streams(before)
            raise
        norm = self.optimizers.clip()
        self.step += 1
        if self.model.device == "cpu":
            self._check_finite(loss, norm, rate)
        self._updating = True
        self.optimizers.step(self.step_function.executor)
        if self.model.device != "cpu":
            # Here the host waits, once, when the whole step has been launched. What is not finite is never saved.
            loss, norm = float(loss), float(norm)
            self._check_finite(loss, norm, rate)
        self._updating = False
        now = time.perf_counter()
        self.seconds = now - self._began
        return StepReport(
            step=self.step,
            loss=loss,
            smoothed_loss=self.smoothed.add(loss),
            learning_rate=rate,
            grad_norm=norm,
            tokens_per_second=inputs.size / (now - began),
            seconds=self.seconds,
            seconds_left=self.seconds / self.step * (self.config.run.steps - self.step),
        )

    def _check_finite(self, loss, norm, rate):
        """Raise NonFiniteError, with the name of what is to blame, unless the step's numbers are finite."""
        if math.isfinite(loss) and math.isfinite(norm):
            return
        name = "the loss"
        if math.isfinite(loss):
            name = next(
                (
                    f"the gradient of {name}"
                    for name, parameter in self.model.named_parameters()
                    if parameter.grad is not None and not np.isfinite(parameter.grad.numpy()).all()
                ),
                "the gradient norm",
            )
        raise NonFiniteError(
            f"step {self.step}: {name} is not finite (loss {loss:g}, gradient norm {norm:g}, learning "
            f"rate {rate:g}); the last good state is in {self.run.path / 'last'}, and a smaller "
            f"--learning-rate may help"
        )

    # ---- evaluation

    def evaluate(self, watch=None):
        """The loss of the validation part, or of ``evaluate_characters`` of it, with dropout off.

        Args:
            watch: as for ``evaluate`` in train/evaluation.py.
        """
        validation = self.dataset.validation
        block_size, most = self.config.architecture.block_size, self.config.run.evaluate_characters
        loss = evaluate(
            self.model,
            validation,
            block_size,
            self.task,
            self.step_function.executor,
            characters=most,
            watch=watch,
        )
        if not math.isfinite(loss):
            raise NonFiniteError(
                f"step {self.step}: the validation loss is not finite ({loss:g}); the last good state "
                f"is in {self.run.path / 'last'}"
            )
        best = loss < self.best_loss
        if best:
            self.best_loss, self.best_step = loss, self.step
        self.seconds = time.perf_counter() - self._began
        return EvaluationReport(
            step=self.step,
            loss=self.smoothed.value,
            loss_steps=min(self.step, self.smoothed.span),
            validation_loss=loss,
            characters=evaluated_characters(len(validation), block_size, most),
            validation_characters=len(validation) - 1,
            best=best,
            baselines=self.dataset.baselines,
            seconds=self.seconds,
        )

    def sample(self, should_stop=lambda: False):
        """Some text in the model's hand.

        Raises:
            Stopped: where ``should_stop()`` before its end; the random stream is then as it was.
        """
        vocabulary, stream = self.dataset.vocabulary, self.streams["samples"]
        before = stream.state
        text = generate(
            self.model,
            vocabulary.encode(vocabulary.start),
            self.config.run.sample_length,
            temperature=0.8,
            random=stream,
            slide=max(1, self.config.architecture.block_size // 2),
        )
        ids = []
        try:
            for i in text:
                ids.append(i)
                if should_stop():
                    stream.state = before
                    raise Stopped
        except ValueError as error:
            raise NonFiniteError(f"step {self.step}: {error}") from error
        return vocabulary.decode(ids)

    # ---- states

    def save(self, names):
        """Write the present state under each of ``names``; the first process does it."""
        if not self.processes.is_first:
            return
        model = self._finite_weights()
        arrays, settings = self.optimizers.state()
        state = {**self.state(), "optimizer": settings}
        mark = self._mark if self._metrics is None else self._metrics.mark()
        self.run.write_states(names, model, arrays, state, mark)
        self.saved_step = self.step

    def _finite_weights(self):
        """The model's arrays.

        Raises:
            NonFiniteError: where one is not finite: it must not replace a good state.
        """
        model = self.model.state_dict()
        name = first_not_finite(model)
        if name is not None:
            raise NonFiniteError(
                f"step {self.step}: the weights {name} are not finite; the last good state is in "
                f"{self.run.path / 'last'}, and a smaller --learning-rate may help"
            )
        return model

    def state(self):
        """What a state holds beside arrays."""
        return {
            "step": self.step,
            "best_loss": None if math.isinf(self.best_loss) else self.best_loss,
            "best_step": self.best_step,
            "smoothed_loss": [self.smoothed.total, self.smoothed.weight],
            "seconds": self.seconds,
            "looked_at": self.looked_at,
            "corpus": self.dataset.identity,
            "random": {name: stream.state for name, stream in self.streams.items()},
        }

    def restore(self, state, mark=None):
        """Take up a state that ``state`` gave, and the mark of the metrics that was saved with it."""
        self._mark = mark
        self.step = self.saved_step = state["step"]
        self.best_loss = math.inf if state["best_loss"] is None else float(state["best_loss"])
        self.best_step = state["best_step"]
        total, weight = map(float, state["smoothed_loss"])
        self.smoothed = SmoothedLoss(total, weight)
        self.seconds = float(state["seconds"])
        self.looked_at = state.get("looked_at", self.step)  # runs of before have none
        self._restore_streams(state["random"])

    def _restore_streams(self, states):
        for name, stream in self.streams.items():
            stream.state = states[name]

    def _snapshot(self, steps):
        if self.step in steps and self.processes.is_first:
            self.run.write_snapshot(self.step, self._finite_weights())


def snapshot_steps(steps, count):
    """The steps at which ``count`` snapshots are taken, evenly from the first to the last.

    >>> sorted(snapshot_steps(100, 3)), list(snapshot_steps(2, 9))
    ([0, 50, 100], [0, 1, 2])
    """
    if count == 0:
        return set()
    if count > steps:
        return range(steps + 1)
    return {round(float(step)) for step in np.linspace(0 if count > 1 else steps, steps, count)}
