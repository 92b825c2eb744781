"""What Ctrl-C does while the command is still importing: it ends the process at once, without a word, status 130.

The package is imported before any line of the command runs, and an interruption in the middle of NumPy's import shows
a traceback, or is taken for an import that failed. ``tinyattn/__init__.py`` therefore calls ``leave_quietly`` before
it imports anything else. It does something only where the program is the command: a program of the user's keeps its
handlers.
"""

import os
import signal
import sys

_SCRIPTS = ("tinyattn", "tinyattn.exe", "tinyattn-script.py")


def leave_quietly():
    """Let Ctrl-C end the process, if that is the command and an interruption would raise a KeyboardInterrupt."""
    if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def be_interruptible():
    """Let Ctrl-C raise a KeyboardInterrupt again: the imports are done, and there is work to be ended in order."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number, frame):
    os._exit(130)


def _is_command():
    """Whether this is ``tinyattn`` or ``python -m tinyattn``; of the latter ``-m`` is all that argv has as yet."""
    program = sys.argv[0] if getattr(sys, "argv", None) else ""
    if program == "-m":
        words = sys.orig_argv
        return "-m" in words[:-1] and words[words.index("-m") + 1] == "tinyattn"
    return os.path.basename(program) in _SCRIPTS
