"""Table output with a progress line below it on a terminal."""

import sys
import time

from .display import describe_duration
from .terminal import is_terminal, visible


class Progress:
    """Context manager: call ``begin(name)`` before each of ``total`` tasks and ``line(text)`` after it."""

    def __init__(self, total, stream=None):
        self._stream = sys.stdout if stream is None else stream
        self._total = total
        self._done = 0
        self._began = time.monotonic()
        self._live = None
        if is_terminal(self._stream):
            from .console import LiveLine, make_console

            self._live = LiveLine(make_console(self._stream), total)

    def __enter__(self):
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(self, *exception):
        if self._live is not None:
            self._live.__exit__(*exception)

    def begin(self, name):
        """Show the name of the current task and the remaining time."""
        if self._live is None:
            return
        parts = [f"{self._done}/{self._total}", name]
        if self._done:
            seconds = (time.monotonic() - self._began) / self._done * (self._total - self._done)
            parts.append(f"{describe_duration(seconds)} left")
        self._live.update(self._done, parts)

    def line(self, text, good=True):
        """Print a line of the table, in red unless ``good``."""
        self._done += 1
        if self._live is None:
            print(text, file=self._stream, flush=True)
        else:
            style = None if good else "bold red"
            self._live.console.print(visible(text), soft_wrap=True, style=style)
