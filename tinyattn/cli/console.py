"""Rich's console as the commands use it, and a line that shows how far they are."""

import shutil

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from .terminal import VisibleStream, visible

NARROWEST, WIDEST = 20, 1000  # what help and tables can be laid out in [columns]
_SHORTEST_BAR = 8


class _Console(Console):
    def on_broken_pipe(self):
        raise  # the error that rich handles as it calls this: main ends the command quietly


def make_console(stream):
    """A console that writes to ``stream``; its own colours and cursor movements are not filtered.

    Text that a user gave goes through ``visible`` before it is printed.
    """
    raw = stream.raw if isinstance(stream, VisibleStream) else stream
    console = _Console(file=raw, highlight=False, markup=False, emoji=False)
    if not NARROWEST <= console.width <= WIDEST:
        # COLUMNS=0, as some programs set it, means that nobody knows: the system is asked.
        columns = console.width or shutil.get_terminal_size().columns
        console.width = min(max(columns, NARROWEST), WIDEST)
    return console


class LiveLine:
    """A line at the bottom of a terminal that rewrites itself; what is printed on ``console`` stands above it.

    A context manager. Where the terminal is narrow, the bar is left out first, then the last parts of the text.
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
        """Show that ``completed`` of the total are done, and ``parts``, texts, the most important first."""
        self.completed, self.parts = completed, [visible(part) for part in parts]

    def __rich_console__(self, console, options):
        width = options.max_width
        text = Text("  ".join(fitting(self.parts, width)), no_wrap=True, overflow="ellipsis")
        rest = width - text.cell_len - 2
        if rest < _SHORTEST_BAR or not self.total:
            yield text
            return
        line = Table.grid(padding=(0, 2, 0, 0))
        line.add_row(text, ProgressBar(self.total, self.completed, width=min(rest, 40)))
        yield line


def fitting(parts, width):
    """As many of the first ``parts``, two spaces apart, as fit into ``width``; the first one always.

    >>> fitting(["step 3/9", "loss 1.5", "9 s left"], 20)
    ['step 3/9', 'loss 1.5']
    """
    kept = parts[:1]
    for part in parts[1:]:
        if len("  ".join([*kept, part])) > width:
            break
        kept.append(part)
    return kept
