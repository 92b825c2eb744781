"""What Ctrl-C does while the command is still importing: it ends the process at once, without a word, status 130.

The package is imported before any line of the command runs, and an interruption in the middle of NumPy's import shows
a traceback, or is taken for an import that failed. ``tinyattn/__init__.py`` therefore calls ``leave_quietly`` before
it imports anything else. It does something only where the program is the command: a program of the user's keeps its
handlers.
"""

import os
import signal
import sys
import threading

_SCRIPTS = ("tinyattn", "tinyattn.exe", "tinyattn-script.py")


def leave_quietly():
    """Let Ctrl-C end the process, if that is the command and an interruption would raise a KeyboardInterrupt."""
    if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def be_interruptible():
    """Let Ctrl-C raise a KeyboardInterrupt again: the imports are done, and there is work to be ended in order."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, interrupt)


def interrupt(number, frame):
    """Signal handler: raise KeyboardInterrupt, but never inside a ``__del__``.

    Python prints and drops an exception that leaves a finalizer, so the interruption would be lost, and what the
    finalizer had to give back too. The signal is sent again after the finalizer has returned.
    """
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            threading.Timer(0.001, _signal_main_thread, [number]).start()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _signal_main_thread(number):
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident, number)  # ends a system call that waits
    else:  # Windows
        signal.raise_signal(number)


def _leave(number, frame):
    os._exit(130)


def _is_command():
    """Whether this is ``tinyattn`` or ``python -m tinyattn``; of the latter ``-m`` is all that argv has as yet."""
    program = sys.argv[0] if getattr(sys, "argv", None) else ""
    if program == "-m":
        words = sys.orig_argv
        return "-m" in words[:-1] and words[words.index("-m") + 1] == "tinyattn"
    return os.path.basename(program) in _SCRIPTS
