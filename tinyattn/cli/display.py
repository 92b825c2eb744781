"""What a training run shows: one live line in a terminal, plain lines anywhere else."""

import os
import sys
import time

from .terminal import is_terminal, visible


def make_display(steps, stream=None):
    """The display for ``stream`` (standard output by default), for a run of ``steps`` steps."""
    stream = sys.stdout if stream is None else stream
    if is_terminal(stream):
        return LiveDisplay(steps, stream)
    return PlainDisplay(steps, stream)


class PlainDisplay:
    """A line every few seconds: for files, pipes and logs.

    Args:
        steps: how many there will be.
        stream: where to write.
        interval: least time between two lines about steps [s].
    """

    def __init__(self, steps, stream, interval=5.0):
        self.steps = steps
        self.stream = stream
        self.interval = interval
        self._shown = time.monotonic()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def note(self, text):
        """Print a line of text."""
        print(text, file=self.stream, flush=True)

    def step(self, report):
        """Show a step (``train.StepReport``), if the last one shown is long enough ago."""
        now = time.monotonic()
        if now - self._shown >= self.interval:
            self._shown = now
            self.note(f"step {report.step}/{self.steps}  {'  '.join(step_parts(report))}")

    def evaluating(self, step, done, total):
        """Show how many of ``total`` characters an evaluation has done, if the last line is long enough ago."""
        now = time.monotonic()
        if now - self._shown >= self.interval:
            self._shown = now
            self.note(f"step {step}/{self.steps}  {describe_evaluating(done, total)}")

    def evaluation(self, report):
        """Show an evaluation (``train.EvaluationReport``)."""
        self._shown = time.monotonic()
        self.note(describe_evaluation(report, self.steps))

    def sample(self, step, text):
        """Show a sample of the model's writing."""
        self.note(f"--- a sample after step {step}")
        self.note(text.rstrip("\n"))
        self.note("---")


class LiveDisplay(PlainDisplay):
    """A progress line that rewrites itself, with the lasting lines above it."""

    def __init__(self, steps, stream):
        from .console import LiveLine, make_console

        super().__init__(steps, stream)
        self.line = LiveLine(make_console(stream), steps)

    def __enter__(self):
        self.line.__enter__()
        return self

    def __exit__(self, *exception):
        self.line.__exit__(*exception)

    def note(self, text):
        """Print a line of text above the progress line."""
        self.line.console.print(visible(text), soft_wrap=True)

    def step(self, report):
        """Move the progress line to a step."""
        self.line.update(report.step, [f"step {report.step}/{self.steps}", *step_parts(report)])

    def evaluating(self, step, done, total):
        """Show on the progress line how many of ``total`` characters an evaluation has done."""
        self.line.update(step, [f"step {step}/{self.steps}", describe_evaluating(done, total)])


def step_parts(report):
    """A step's loss, time left, mean of the last losses and speed: texts, the most important first."""
    return [
        f"loss {report.loss:.3f}",
        f"{describe_duration(report.seconds_left)} left",
        f"smoothed {report.smoothed_loss:.3f}",
        f"{report.tokens_per_second:,.0f} tokens/s",
    ]


def describe_evaluating(done, total):
    """How far an evaluation is."""
    return f"evaluating: {done:,} of {total:,} characters"


def describe_evaluation(report, steps):
    """An evaluation next to what counting achieves, in one line; what each loss is taken over, where it is a part."""
    baselines = "  ".join(f"{name} {loss:.3f}" for name, loss in report.baselines.items())
    notes = ["best"] if report.best else []
    if report.characters < report.validation_characters:
        notes.append(f"{report.characters:,} of {report.validation_characters:,} characters")
    remark = f" ({', '.join(notes)})" if notes else ""
    return (
        f"step {report.step}/{steps}  "
        f"train {report.loss:.4f} (mean of the last {report.loss_steps} steps)  "
        f"validation {report.validation_loss:.4f}{remark}  "
        f"{baselines}  [{describe_duration(report.seconds)}]"
    )


def discard_output():
    """Print to nowhere from now on: the reader left, as `head` does, of which Python would complain at its exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    except (AttributeError, OSError):  # a stream of the caller's own, with no descriptor
        sys.stdout = open(nowhere, "w")


def describe_duration(seconds):
    """Seconds as people write them.

    >>> describe_duration(4.2), describe_duration(75), describe_duration(4000)
    ('4 s', '1:15', '1:06:40')
    """
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
