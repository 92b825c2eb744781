"""The training loop: steps, evaluations, text samples, saved states.

Text order, dropout and samples each have a random stream on the host, seeded from the run's seed and saved with each
state. Evaluations and samples therefore do not change the training, and a resumed run is bit-identical to one that was
not interrupted.
"""

import math
import os
import time
from dataclasses import dataclass, field

import numpy as np

from ..data import Batches, InputError
from ..data.dataset import bits_per_character
from ..sampling import generate
from .evaluation import Stopped, evaluate
from .parallel.mpi import rank_key
from .reports import Display, DisplayError, EvaluationReport, MovingAverage, StepReport, show
from .storage.arrays import first_not_finite
from .storage.metrics import QUANTITIES, Metrics
from .storage.states import evaluated_step

LOSS_STEPS = 20  # steps that the reported training loss is averaged over


class NonFiniteError(ArithmeticError):
    """A loss, a gradient or a weight is NaN or infinite; the last saved state is unchanged."""


def _smoothed_loss(total=0.0, weight=0.0):
    return MovingAverage(1 - 1 / LOSS_STEPS, total, weight)


@dataclass(eq=False)
class Trainer:
    """Trains a run, from its first step or from a saved state.

    Args:
        config: ``TrainConfig``.
        run: ``RunDirectory`` to write to.
        dataset: ``TextDataset`` to train and validate on.
        model: a module in training mode.
        task: converts a batch to inputs and targets, or None (``build_task``).
        optimizers: ``Optimizers`` of the model's parameters.
        step_function: ``BatchStep`` of the model.
        streams: dict of name to ``Random``: batches, masks, dropout, samples.
        processes: a ``ProcessGroup``, the MPI processes that train together.

    Attributes:
        step: steps done.
        saved_step: step of the state that was saved or loaded last, or None.
        evaluated_step: last step after which everything due (evaluation, sample) was done.
        best_loss, best_step: the lowest validation loss so far, and its step.
        seconds: training time so far.
    """

    config: object
    run: object
    dataset: object
    model: object
    task: object
    optimizers: object
    step_function: object
    streams: dict
    processes: object
    step: int = field(default=0, init=False)
    saved_step: int | None = field(default=None, init=False)
    evaluated_step: int = field(default=0, init=False)
    best_loss: float = field(default=math.inf, init=False)
    best_step: int | None = field(default=None, init=False)
    seconds: float = field(default=0.0, init=False)

    def __post_init__(self):
        self.batches = Batches(
            self.dataset.train,
            self.config.architecture.block_size,
            self.config.run.batch_size,
            self.streams["batches"],
        )
        self.smoothed = _smoothed_loss()
        self._began = time.perf_counter()
        self._metrics = None  # open during training
        self._mark = None  # of the metrics in the loaded state
        self._updating = False  # during a parameter update, weights are inconsistent

    # ---- the loop

    def train(self, display=None, should_stop=lambda: False):
        """Train to the last step, or until ``should_stop()``, save, and return whether training is finished.

        Args:
            display: a ``reports.Display`` that shows the progress; none by default.
            should_stop: called between steps, and during evaluations and samples; once true, it must stay true. An
                evaluation that it interrupts is repeated on resumption.

        Raises:
            NonFiniteError: if a loss, gradient or weight is not finite.
            DisplayError: if ``display`` cannot write; a state is saved first.
            InputError: if the run's directory was deleted.
            RuntimeError: on a second call: use ``resume``.
        """
        if self.processes.is_first and not self.run.is_locked:
            raise RuntimeError(
                "this trainer has already trained and unlocked its run: resume the run"
            )
        try:
            return self._train(display or Display(), should_stop)
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
            self._evaluate_if_due(display, should_stop)
            while self.step < end and not self.processes.any(should_stop()):
                report = self.train_step()
                quantities = {name: getattr(report, name, None) for name in QUANTITIES}
                metrics.append(report.step, **quantities)
                show(display.step, report)
                self._snapshot(snapshots)
                self._evaluate_if_due(display, should_stop)
            if self.evaluated_step < self.step or not self._due(options.evaluate_every):
                self.save(["last"])
        except BrokenPipeError as error:  # only the display writes to a pipe
            self.save(["last"])
            raise DisplayError(str(error)) from error
        except (NonFiniteError, InputError, OSError):
            raise  # the last saved state is intact, or cannot be replaced
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
        """Whether all steps, and the evaluation and sample after the last one, are done."""
        return self.step >= self.config.run.steps and self.evaluated_step == self.step

    def _due(self, every):
        return every > 0 and (self.step % every == 0 or self.step == self.config.run.steps)

    def _evaluate_if_due(self, display, should_stop):
        """Evaluate, sample and save in the first process, if due at this step."""
        if self.evaluated_step == self.step:
            return
        best = self.best_loss, self.best_step
        try:
            if self.processes.is_first:
                self._evaluate_and_sample(display, should_stop)
        except Stopped:
            self.best_loss, self.best_step = best
        else:
            self.evaluated_step = self.step

    def _evaluate_and_sample(self, display, should_stop):
        def watch(done, total):
            show(display.evaluating, self.step, done, total)
            if should_stop():
                raise Stopped

        options = self.config.run
        evaluation = self.evaluate(watch) if self._due(options.evaluate_every) else None
        can_write = hasattr(self.model, "cache")
        # Sample before saving: the state contains the sampling stream.
        text = self.sample(should_stop) if can_write and self._due(options.sample_every) else None
        self.evaluated_step = self.step
        if evaluation is not None:
            self._metrics.append(
                self.step,
                val_loss=evaluation.validation_loss,
                val_bits_per_character=evaluation.bits_per_character,
                seconds=evaluation.seconds,
            )
            self.save(["best", "last"] if evaluation.best else ["last"])
            show(display.evaluation, evaluation)
        if text is not None:
            show(display.sample, self.step, text)

    def train_step(self):
        """Do one optimizer step; returns a ``StepReport``."""
        before = {name: stream.state for name, stream in self.streams.items()}
        inputs, targets = self.batches.draw()
        characters = int(self.dataset.vocabulary.characters_per_token[targets].sum())
        if self.task is not None:
            inputs, targets = self.task(inputs, targets, self.streams["masks"])
        rate = self.optimizers.set_learning_rate(self.step)
        began = time.perf_counter()
        rows = self.processes.rows(len(inputs))
        key = rank_key(self.streams["dropout"].key(), self.processes.rank)
        try:
            loss = self.step_function(inputs[rows], targets[rows], key)
        except MemoryError as error:
            self._restore_streams(before)
            raise MemoryError(self._out_of_memory(error)) from error
        except Exception:
            # If a worker was killed, for example, the state before this step is consistent and can be saved.
            self._restore_streams(before)
            raise
        norm = self.optimizers.clip()
        self.step += 1
        if self.model.device == "cpu":
            self._check_finite(loss, norm, rate)
        self._updating = True
        self.optimizers.step(self.step_function.executor)
        if self.model.device != "cpu":
            # The host waits for the device only here, after all kernels of the step are launched. Values that are not
            # finite are never saved.
            loss, norm = float(loss), float(norm)
            self._check_finite(loss, norm, rate)
        self._updating = False
        now = time.perf_counter()
        self.seconds = now - self._began
        return StepReport(
            step=self.step,
            loss=loss,
            bits_per_character=bits_per_character(loss, inputs.size, characters),
            smoothed_loss=self.smoothed.add(loss),
            learning_rate=rate,
            grad_norm=norm,
            tokens_per_second=inputs.size / (now - began),
            seconds=self.seconds,
            seconds_left=self.seconds / self.step * (self.config.run.steps - self.step),
        )

    def _out_of_memory(self, error):
        batch, block = self.config.run.batch_size, self.config.architecture.block_size
        detail = f" ({error})" if str(error) else ""
        return (
            f"step {self.step + 1}: the memory of {self.model.device} does not hold {batch} windows of "
            f"{block} {self.dataset.vocabulary.unit}s{detail}; lower --batch-size {batch} or --block-size {block}"
        )

    def _check_finite(self, loss, norm, rate):
        """Raise a NonFiniteError if the loss or the gradient norm is not finite."""
        if math.isfinite(loss) and (math.isfinite(norm) or self.optimizers.skips):
            return
        name = "the loss"
        if math.isfinite(loss):
            gradients = {name: parameter.grad for name, parameter in self.model.named_parameters()}
            name = first_not_finite(
                {
                    f"the gradient of {name}": gradient.numpy()
                    for name, gradient in gradients.items()
                    if gradient is not None
                }
            )
        details = f"(loss {loss:g}, gradient norm {norm:g}, learning rate {rate:g})"
        raise self._non_finite(f"{name or 'the gradient norm'} is not finite {details}")

    def _non_finite(self, problem):
        return NonFiniteError(
            f"step {self.step}: {problem}; the last good state is in {self.run.path / 'last'}, and a smaller "
            f"--learning-rate may help"
        )

    # ---- evaluation

    def evaluate(self, watch=None):
        """Evaluate the validation split, or ``evaluate_characters`` of it, in eval mode; an ``EvaluationReport``.

        Args:
            watch: as for ``evaluate`` in train/evaluation.py.
        """
        validation = self.dataset.validation
        block_size, most = self.config.architecture.block_size, self.config.run.evaluate_characters
        executor = self.step_function.executor
        loss = evaluate(
            self.model, validation, block_size, self.task, executor, tokens=most, watch=watch
        )
        if not math.isfinite(loss):
            raise self._non_finite(f"the validation loss is not finite ({loss:g})")
        best = loss < self.best_loss
        if best:
            self.best_loss, self.best_step = loss, self.step
        self.seconds = time.perf_counter() - self._began
        evaluated = self.dataset.evaluated(most)
        return EvaluationReport(
            step=self.step,
            loss=self.smoothed.value,
            loss_steps=min(self.step, LOSS_STEPS),
            validation_loss=loss,
            bits_per_character=evaluated.bits_per_character(loss),
            tokens=evaluated.tokens,
            validation_tokens=len(validation) - 1,
            unit=self.dataset.vocabulary.unit,
            best=best,
            baselines=evaluated.baselines,
            seconds=self.seconds,
        )

    def sample(self, should_stop=lambda: False):
        """Generate a text sample.

        Raises:
            Stopped: if ``should_stop()`` during generation; the random stream is then restored.
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

    # ---- saved states

    def save(self, names):
        """Save the current state under each of ``names``, in the first process."""
        if not self.processes.is_first:
            return
        model = self._finite_weights()
        arrays, settings = self.optimizers.state()
        values = {**self.state(), "optimizer": settings}
        mark = self._mark if self._metrics is None else self._metrics.mark()
        self.run.write_states(names, model, arrays, values, mark)
        self.saved_step = self.step

    def _finite_weights(self):
        """The model's arrays.

        Raises:
            NonFiniteError: if one is not finite: it must not replace a good state.
        """
        model = self.model.state_dict()
        name = first_not_finite(model)
        if name is not None:
            raise self._non_finite(f"the weights {name} are not finite")
        return model

    def state(self):
        """The values of a saved state other than arrays and optimizer settings, as JSON can represent them."""
        return {
            "step": self.step,
            "best_loss": None if math.isinf(self.best_loss) else self.best_loss,
            "best_step": self.best_step,
            "smoothed_loss": [self.smoothed.total, self.smoothed.weight],
            "seconds": self.seconds,
            "evaluated_step": self.evaluated_step,
            "corpus": self.dataset.identity,
            "random": {name: stream.state for name, stream in self.streams.items()},
        }

    def restore(self, state, mark=None):
        """Continue from a result of ``state``, and the ``mark`` of the metrics that was saved with it."""
        self._mark = mark
        self.step = self.saved_step = state["step"]
        self.best_loss = math.inf if state["best_loss"] is None else float(state["best_loss"])
        self.best_step = state["best_step"]
        total, weight = map(float, state["smoothed_loss"])
        self.smoothed = _smoothed_loss(total, weight)
        self.seconds = float(state["seconds"])
        self.evaluated_step = evaluated_step(state)
        self._restore_streams(state["random"])

    def _restore_streams(self, states):
        for name, stream in self.streams.items():
            stream.state = states[name]

    def _snapshot(self, steps):
        if self.step in steps and self.processes.is_first:
            self.run.write_snapshot(self.step, self._finite_weights())


def snapshot_steps(steps, count):
    """The steps at which ``count`` snapshots are taken, evenly spaced from the first to the last.

    >>> sorted(snapshot_steps(100, 3)), list(snapshot_steps(2, 9))
    ([0, 50, 100], [0, 1, 2])
    """
    if count == 0:
        return set()
    if count > steps:
        return range(steps + 1)
    return {round(float(step)) for step in np.linspace(0 if count > 1 else steps, steps, count)}
