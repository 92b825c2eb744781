"""Apply the rule of ``--minutes`` when a run begins."""

import math
import time
from dataclasses import dataclass

from ...data import InputError
from ..config import RunOptions, flatten, given_options, make_config
from . import rule
from .trial import measure

AIM = 0.97  # share of the time that is planned; the rest is for what varies
PICTURE_SECONDS = 1.0  # to import matplotlib, to draw loss.png, and to exit
# The time of a step grows more slowly than its operations, since products of large matrices are faster. The estimate
# is too low rather than too high, so that a size on the border is measured.
_TIME_EXPONENT, _OPTIMISM = 0.9, 0.9

# Seconds for the timed steps of one trial: a share of the time, and at most.
_TRIAL_SHARE, _LONGEST_TRIAL = 0.01, 2.0
# The candidate that is measured first, 3/4/96, takes a fraction of a second; with less time it is the smallest.
_FIRST_TRIAL, _SHORT = 3, 3.0

_SIZE = ("layers", "heads", "dim", "block_size", "batch_size")
_SCHEDULE = ("steps", "warmup_steps", "evaluate_every", "evaluate_characters", "sample_every")


@dataclass(frozen=True)
class Plan:
    """What a ``TimeBudget`` has chosen.

    Attributes:
        minutes: the given time.
        step_seconds: the measured seconds per step.
        seconds: the expected time of the command, from its start.
        epochs: passes over the training text.
    """

    minutes: float
    step_seconds: float
    seconds: float
    epochs: float

    @property
    def ends_early(self):
        """Whether the text is too short to train for the whole time."""
        return self.seconds < 0.9 * 60 * self.minutes


class TimeBudget:
    """A time for a whole run, which chooses the options that are not given.

    Args:
        minutes: the time from ``began`` to the end of the command.
        options: dict of the options given on the command line or in a file.
        began: ``time.perf_counter()`` at the start of the command; now by default.

    Attributes:
        plan: the ``Plan``, after ``choose``.

    Raises:
        InputError: if the number of steps is given too, or an option is invalid.
    """

    def __init__(self, minutes, options, began=None):
        if "steps" in options:
            raise InputError(
                "--minutes chooses the number of steps: leave out --steps, or a --config that has it"
            )
        self.seconds = 60 * minutes
        self.began = time.perf_counter() if began is None else began
        self.plan = None
        self._minutes = minutes
        self._given = options
        # The size of a preset is kept. Its schedule is for its own number of steps.
        self._fixed = {
            name: value
            for name, value in given_options(options).items()
            if name in options or name not in _SCHEDULE
        }
        smallest, _ = rule.candidates(rule.Text(1, 1, 1), self._fixed)[0]
        self.first_config = make_config({**smallest, **options})  # to load the text with

    def choose(self, config, dataset, make_trainer, processes):
        """Measure candidates on this machine, and return the ``TrainConfig`` of the run.

        Args:
            config: ``first_config``, or one that differs in what is not chosen here.
            dataset: the ``TextDataset``; the size of its windows becomes that of the run.
            make_trainer: function of a ``TrainConfig``: a new ``Trainer`` without a run, for one trial.
            processes: the ``ProcessGroup``; all processes get the same result.

        Raises:
            InputError: if the time is too short for any run.
        """
        text = rule.Text(len(dataset.train), len(dataset.validation), len(dataset.vocabulary))
        speed = _Speed(text.vocabulary)
        trial_seconds = min(_TRIAL_SHARE * self.seconds, _LONGEST_TRIAL)
        candidates = rule.candidates(text, self._fixed)
        first = 0 if self.seconds < _SHORT else min(_FIRST_TRIAL, len(candidates) - 1)
        options = {**candidates[first][0], **self._fixed}
        while options not in speed:
            trial = _with(config, options)
            dataset.set_block_size(trial.architecture.block_size)
            speed.add(options, measure(make_trainer(trial), trial_seconds))
            seconds = self._left(processes) * (1 - rule.EVALUATION_SHARE - rule.SAMPLE_SHARE)
            options = {**self._fixed, **self._choose(seconds, text, speed, self._fixed)}
        dataset.set_block_size(options["block_size"])
        return _with(
            config, self._schedule(options, speed.costs(options), text, dataset, processes)
        )

    def _left(self, processes):
        """The seconds that are left for training, evaluations and samples."""
        elapsed = processes.broadcast(lambda: time.perf_counter() - self.began)
        return AIM * self.seconds - elapsed - PICTURE_SECONDS

    def _choose(self, seconds, text, step_seconds, fixed):
        try:
            return rule.choose(seconds, text, step_seconds, fixed)
        except rule.TooShortError as error:
            missing = error.shortest - seconds
            shortest = (self.seconds + 1.2 * missing / (1 - rule.EVALUATION_SHARE)) / 60
            raise InputError(
                f"--minutes {self._minutes:g} is too short: with this text and these options a run takes at least "
                f"{_rounded_up(shortest):g} minutes here"
            ) from None

    def _schedule(self, options, costs, text, dataset, processes):
        """The options of the run, its number of steps from all that it costs."""
        number, most = rule.evaluations(
            self._left(processes), costs.evaluated_token, 2 * costs.state, text
        )
        most = self._given.get("evaluate_characters", most)
        covered = dataset.evaluated(
            most
        ).tokens  # computes the baselines, before the clock is read again
        seconds = self._left(processes) - costs.state
        evaluation = covered * costs.evaluated_token + 2 * costs.state
        sample = costs.sampled_token * self._fixed.get("sample_length", RunOptions.sample_length)
        numbers = {
            "evaluate_every": number,
            "sample_every": rule.number_of_samples(seconds, sample, number),
        }
        step = costs.step
        for (name, number), cost in zip(numbers.items(), (evaluation, sample), strict=True):
            every = self._given.get(name)
            if every is None:
                seconds -= number * cost
            elif every > 0:
                step += cost / every
        size = {name: options[name] for name in (*_SIZE, "dropout")}
        chosen = self._choose(seconds, text, lambda _: step, {**self._fixed, **size})
        steps = chosen["steps"]
        for name in numbers.keys() - self._given.keys():
            chosen[name] = math.ceil(steps / numbers[name]) if numbers[name] else 0
        tokens = steps * size["batch_size"] * size["block_size"]
        self.plan = Plan(
            self._minutes,
            costs.step,
            AIM * self.seconds - (seconds - steps * step),
            tokens / text.training,
        )
        return {**size, **chosen, "evaluate_characters": most}


class _Speed:
    """The seconds per step of candidates: measured, or estimated from the measured one of nearest cost."""

    def __init__(self, vocabulary):
        self._vocabulary = vocabulary
        self._measured = {}  # size -> operations, costs

    def __contains__(self, options):
        return _key(options) in self._measured

    def add(self, options, costs):
        flops = rule.step_flops(options, self._vocabulary)
        self._measured[_key(options)] = flops, costs

    def costs(self, options):
        return self._measured[_key(options)][1]

    def __call__(self, options):
        if options in self:
            return self.costs(options).step
        flops = rule.step_flops(options, self._vocabulary)
        near, costs = min(self._measured.values(), key=lambda pair: abs(math.log(pair[0] / flops)))
        return _OPTIMISM * costs.step * (flops / near) ** _TIME_EXPONENT


def _key(options):
    return tuple(options[name] for name in _SIZE)


def _with(config, options):
    """``config`` with other options."""
    return make_config({**flatten(config), **options}, with_preset=False)


def _rounded_up(number):
    """``number``, rounded up to two significant digits.

    >>> _rounded_up(0.1234), _rounded_up(7.0)
    (0.13, 7.0)
    """
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return round(math.ceil(number / unit - 1e-9) * unit, 12)
