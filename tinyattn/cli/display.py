"""Progress output of a training run: a live line on a terminal, plain lines elsewhere."""

import os
import sys
import time

from ..train.reports import Display
from .terminal import is_terminal, visible


def make_display(steps, stream=None):
    """Create the display of a run of ``steps`` steps on ``stream``, by default standard output."""
    stream = sys.stdout if stream is None else stream
    if is_terminal(stream):
        return LiveDisplay(steps, stream)
    return PlainDisplay(steps, stream)


class PlainDisplay(Display):
    """Progress as a line every few seconds, for files, pipes and logs.

    Args:
        steps: number of steps of the run.
        stream: text stream to write to.
        interval: shortest time between two progress lines [s].
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
        """Show the progress after a step (``train.StepReport``)."""
        self._progress(report.step, step_parts(report))

    def evaluating(self, step, done, total):
        """Show the progress of an evaluation, ``done`` of ``total`` tokens."""
        self._progress(step, [f"evaluating: {done:,} of {total:,}"])

    def _progress(self, step, parts):
        now = time.monotonic()
        if now - self._shown >= self.interval:
            self._shown = now
            self.note("  ".join([f"step {step}/{self.steps}", *parts]))

    def evaluation(self, report):
        """Print the result of an evaluation (``train.EvaluationReport``)."""
        self._shown = time.monotonic()
        self.note(describe_evaluation(report, self.steps))

    def sample(self, step, text):
        """Print a text sample of the model."""
        self.note(f"--- text sample after step {step}")
        self.note(text.rstrip("\n"))
        self.note("---")


class LiveDisplay(PlainDisplay):
    """Progress as a live line at the bottom of a terminal, with all other lines above it."""

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

    def _progress(self, step, parts):
        self.line.update(step, [f"step {step}/{self.steps}", *parts])


class EncodingProgress:
    """Context manager for the progress of encoding a long text: call it with numbers of characters.

    On a terminal it is a live line, elsewhere a line every few seconds.
    """

    def __init__(self, stream=None, interval=5.0):
        self.stream = sys.stdout if stream is None else stream
        self.interval = interval
        self._shown = time.monotonic()
        self._line = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self._line is not None:
            self._line.__exit__(*exception)

    def __call__(self, done, total):
        part = f"encoding the text: {done:,} of {total:,} characters"
        if is_terminal(self.stream):
            if self._line is None:
                from .console import LiveLine, make_console

                self._line = LiveLine(make_console(self.stream), total).__enter__()
            self._line.update(done, [part])
        elif time.monotonic() - self._shown >= self.interval:
            self._shown = time.monotonic()
            print(part, file=self.stream, flush=True)


def step_parts(report):
    """Loss, remaining time, smoothed loss and throughput of a step, as strings, the most important first."""
    return [
        f"loss {report.loss:.3f}",
        f"{describe_duration(report.seconds_left)} left",
        f"smoothed {report.smoothed_loss:.3f}",
        f"{report.tokens_per_second:,.0f} tokens/s",
        f"{report.bits_per_character:.2f} bits/char",
    ]


def describe_evaluation(report, steps):
    """One line with the losses of an evaluation, what they are averaged over, and the baselines."""
    baselines = "  ".join(f"{name} {loss:.3f}" for name, loss in report.baselines.items())
    notes = ["best"] if report.best else []
    if report.tokens < report.validation_tokens:
        notes.append(f"{report.tokens:,} of {report.validation_tokens:,} {report.unit}s")
    remark = f" ({', '.join(notes)})" if notes else ""
    return (
        f"step {report.step}/{steps}  "
        f"train {report.loss:.4f} (mean of the last {report.loss_steps} steps)  "
        f"validation {report.validation_loss:.4f}, {report.bits_per_character:.3f} bits/char{remark}  "
        f"{baselines}  [{describe_duration(report.seconds)}]"
    )


def discard_output():
    """Redirect standard output to the null device after a broken pipe, which Python would report again at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, sys.stdout.fileno())
    except (AttributeError, OSError):  # a stream without a file descriptor
        sys.stdout = open(null, "w")


def describe_duration(seconds):
    """Format seconds as ``4 s``, ``1:15`` or ``1:06:40``.

    >>> describe_duration(4.2), describe_duration(75), describe_duration(4000)
    ('4 s', '1:15', '1:06:40')
    """
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
