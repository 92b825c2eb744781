"""Text on its way to a terminal: what a text, a file's name or an argument holds is shown and never obeyed.

A terminal obeys control characters: a text with an escape sequence in it could clear the screen, change the window's
title or hide what comes next. ``visible_output`` puts a filter in front of the two standard streams where they are
terminals. A file or a pipe gets the exact characters.
"""

import contextlib
import sys

# Controls (C0, DEL, C1) but for newline and tab, and the marks that reorder the rest of a line (Unicode's
# bidirectional embeddings, overrides and isolates).
_CONTROLS = {*range(0x00, 0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_ESCAPES = {code: repr(chr(code))[1:-1] for code in _CONTROLS - {ord("\n"), ord("\t")}}


def visible(text):
    r"""``text`` with each control character but newline and tab as an escape.

    >>> print(visible("a\x1b[2Jb\r\n\tc\x9b"))
    a\x1b[2Jb\r
        c\x9b
    """
    return text.translate(_ESCAPES)


class VisibleStream:
    """A text stream that writes ``visible`` text to ``raw``, and is like it otherwise."""

    def __init__(self, raw):
        self.raw = raw

    def write(self, text):
        """Write ``text``, control characters as escapes."""
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
    """Whether ``stream`` is a terminal; one that cannot say so, as those of some editors, is none."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # no such method; closed
        return False


@contextlib.contextmanager
def visible_output():
    """Filter what is written to standard output and standard error in a ``with`` block, where they are terminals."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (VisibleStream(s) if is_terminal(s) else s for s in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
