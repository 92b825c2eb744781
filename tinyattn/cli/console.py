"""Rich consoles for the commands, and a live progress line."""

import shutil

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from .terminal import VisibleStream, visible

MIN_WIDTH, MAX_WIDTH = 20, 1000  # layout width of help and tables [columns]
_MIN_BAR_WIDTH = 8


class _Console(Console):
    def on_broken_pipe(self):
        raise  # re-raise BrokenPipeError, which rich is handling: main ends the command silently


def make_console(stream):
    """Create a console that writes to ``stream``, without filtering its own colors and cursor movements.

    The caller passes user-supplied text through ``visible`` before printing it.
    """
    raw = stream.raw if isinstance(stream, VisibleStream) else stream
    console = _Console(file=raw, highlight=False, markup=False, emoji=False)
    if not MIN_WIDTH <= console.width <= MAX_WIDTH:
        # Some programs set COLUMNS=0 for an unknown width: query the terminal.
        columns = console.width or shutil.get_terminal_size().columns
        console.width = min(max(columns, MIN_WIDTH), MAX_WIDTH)
    return console


class LiveLine:
    """Context manager for a progress line at the bottom of a terminal; ``console`` prints above it.

    On a narrow terminal the progress bar is left out first, then the last parts of the text.
    """

    def __init__(self, console, total):
        self.console = console
        self.total = total
        self.completed = 0
        self.parts = []
        self._live = Live(
            get_renderable=lambda: self, console=console, transient=True, refresh_per_second=10
        )

    def __enter__(self):
        self._live.start()
        return self

    def __exit__(self, *exception):
        self._live.stop()

    def update(self, completed, parts):
        """Show the progress ``completed`` of ``total``, and ``parts``: strings, the most important first."""
        self.completed, self.parts = completed, [visible(part) for part in parts]

    def __rich_console__(self, console, options):
        width = options.max_width
        text = Text("  ".join(fitting(self.parts, width)), no_wrap=True, overflow="ellipsis")
        rest = width - text.cell_len - 2
        if rest < _MIN_BAR_WIDTH or not self.total:
            yield text
            return
        line = Table.grid(padding=(0, 2, 0, 0))
        line.add_row(text, ProgressBar(self.total, self.completed, width=min(rest, 40)))
        yield line


def fitting(parts, width):
    """The longest prefix of ``parts`` that fits into ``width`` when joined by two spaces; at least the first part.

    >>> fitting(["step 3/9", "loss 1.5", "9 s left"], 20)
    ['step 3/9', 'loss 1.5']
    """
    kept = parts[:1]
    for part in parts[1:]:
        if len("  ".join([*kept, part])) > width:
            break
        kept.append(part)
    return kept
