"""A table that grows line by line, with a line under it that says what is going on, where someone is watching."""

import sys


class Progress:
    """A context manager: ``begin(name)`` before each of ``total`` tasks, ``line(text)`` after it."""

    def __init__(self, total, stream=None):
        self._stream = sys.stdout if stream is None else stream
        self._total = total
        self._live = None
        if self._stream.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress

            self._console = Console(file=self._stream, highlight=False, markup=False, emoji=False)
            self._live = RichProgress(
                MofNCompleteColumn(),
                BarColumn(bar_width=24),
                TextColumn("{task.description}"),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._task = self._live.add_task("", total=total)

    def __enter__(self):
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *exception):
        if self._live is not None:
            self._live.stop()

    def begin(self, name):
        """Say what is being checked."""
        if self._live is not None:
            self._live.update(self._task, description=name)

    def line(self, text, good=True):
        """Add a lasting line, red if it is not a good one."""
        if self._live is None:
            print(text, file=self._stream, flush=True)
        else:
            self._console.print(text, soft_wrap=True, style=None if good else "bold red")
            self._live.advance(self._task)
