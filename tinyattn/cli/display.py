"""What a training run shows: one live line in a terminal, plain lines anywhere else."""

import os
import sys
import time


def make_display(steps, stream=None):
    """The display for ``stream`` (standard output by default), for a run of ``steps`` steps."""
    stream = sys.stdout if stream is None else stream
    if stream.isatty():
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
            self.note(f"step {report.step}/{self.steps}  {describe_step(report)}")

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
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        super().__init__(steps, stream)
        self.console = Console(file=stream, highlight=False, markup=False, emoji=False)
        self.progress = Progress(
            TextColumn("step {task.completed}/{task.total}"),
            BarColumn(bar_width=None),
            TextColumn("{task.description}"),
            console=self.console,
            expand=True,
            transient=True,
        )
        self.task = self.progress.add_task("", total=steps)

    def __enter__(self):
        self.progress.start()
        return self

    def __exit__(self, *exception):
        self.progress.stop()

    def note(self, text):
        """Print a line of text above the progress line."""
        self.console.print(text, soft_wrap=True)

    def step(self, report):
        """Move the progress line to a step."""
        self.progress.update(self.task, completed=report.step, description=describe_step(report))


def describe_step(report):
    """A step's loss, smoothed loss, speed and time left, in one line."""
    return (
        f"loss {report.loss:.3f}  smoothed {report.smoothed_loss:.3f}  "
        f"{report.tokens_per_second:,.0f} tokens/s  {describe_duration(report.seconds_left)} left"
    )


def describe_evaluation(report, steps):
    """An evaluation next to what counting achieves, in one line."""
    baselines = "  ".join(f"{name} {loss:.3f}" for name, loss in report.baselines.items())
    return (
        f"step {report.step}/{steps}  train {report.loss:.4f}  "
        f"validation {report.validation_loss:.4f}{' (best)' if report.best else ''}  "
        f"{baselines}  [{describe_duration(report.seconds)}]"
    )


def discard_output():
    """Print to nowhere from now on: the reader left, as `head` does, of which Python would complain at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
