"""The reports of training to a display: the results of a step and of an evaluation."""

import math
from dataclasses import dataclass


class DisplayError(Exception):
    """The display cannot write: its terminal was closed, or the log's disk is full."""


class Display:
    """The display that ``Trainer.train`` calls; this one shows nothing, and subclasses override its methods.

    >>> class Losses(Display):
    ...     def step(self, report):
    ...         print(f"step {report.step}: {report.loss:.3f}")
    """

    def step(self, report):
        """A step is done: ``report`` is a ``StepReport``."""

    def evaluating(self, step, done, total):
        """``done`` of ``total`` tokens are evaluated after ``step`` steps."""

    def evaluation(self, report):
        """An evaluation is done: ``report`` is an ``EvaluationReport``."""

    def sample(self, step, text):
        """``text`` was generated after ``step`` steps."""


def show(method, *arguments):
    """Call a method of a display.

    Raises:
        DisplayError: if it cannot write. An OSError could be confused with one of the run's own files.
    """
    try:
        return method(*arguments)
    except OSError as error:
        raise DisplayError(error.strerror or str(error)) from error


@dataclass(frozen=True)
class StepReport:
    """Results of a training step."""

    step: int
    loss: float
    bits_per_character: float
    smoothed_loss: float
    learning_rate: float
    grad_norm: float
    tokens_per_second: float
    seconds: float
    seconds_left: float


@dataclass(frozen=True)
class EvaluationReport:
    """Results of an evaluation.

    ``loss`` is the exponential moving average of the batch losses over about the last ``loss_steps`` steps. Each is
    measured before its update, so that early in training it is higher than the validation loss.
    ``validation_loss`` is the mean over ``tokens`` of the validation split's ``validation_tokens``, in nats per
    ``unit`` (character, byte or token); ``bits_per_character`` is the same loss in bits per character of the text.
    """

    step: int
    loss: float
    loss_steps: int
    validation_loss: float
    bits_per_character: float
    tokens: int
    validation_tokens: int
    unit: str
    best: bool
    baselines: dict
    seconds: float


class MovingAverage:
    """Exponential moving average, with its weights normalized so that it is not biased towards 0.

    Args:
        decay: factor by which the weight of a value decreases with each later one.
        total, weight: sum of the weighted values so far, and of their weights.

    >>> average = MovingAverage(0.5)
    >>> average.add(3.0), average.add(0.0)
    (3.0, 1.0)
    """

    def __init__(self, decay, total=0.0, weight=0.0):
        self.decay = decay
        self.total = total
        self.weight = weight

    def add(self, value):
        """Add a value and return the average."""
        self.total = self.decay * self.total + value
        self.weight = self.decay * self.weight + 1
        return self.value

    @property
    def value(self):
        """The average; infinite before the first value."""
        return self.total / self.weight if self.weight else math.inf
