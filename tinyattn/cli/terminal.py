"""Escaping of control characters in terminal output.

A terminal executes control characters: an escape sequence in a text, file name or argument could clear the screen,
change the window title or hide the following output. ``visible_output`` filters standard output and standard error if
they are terminals. Files and pipes receive the exact characters.
"""

import contextlib
import sys

from ..error_messages import visible


class VisibleStream:
    """Wrapper of the text stream ``raw`` that escapes control characters in what is written."""

    def __init__(self, raw):
        self.raw = raw

    def write(self, text):
        """Write ``text`` with control characters escaped."""
        self.raw.write(visible(text))
        return len(text)

    def writelines(self, lines):
        """Write each of ``lines``."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name):
        return getattr(self.raw, name)

    def __iter__(self):
        return iter(self.raw)


def is_terminal(stream):
    """Whether ``stream`` is a terminal; False for streams without ``isatty``, as in some editors."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # no such method; closed
        return False


@contextlib.contextmanager
def visible_output():
    """Context manager: escape control characters on standard output and standard error if they are terminals."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (VisibleStream(s) if is_terminal(s) else s for s in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
