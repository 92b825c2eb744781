"""The start of the command: its time, and Ctrl-C (SIGINT) while it imports its modules: exit silently with status 130.

An interruption during the import of NumPy prints a traceback, or is reported as a failed import. Therefore
``tinyattn/__init__.py`` calls ``exit_on_interrupt`` before it imports anything else. The call has an effect in the
command only; other programs keep their signal handlers.
"""

import os
import signal
import sys
import threading
import time

_BEGAN = time.perf_counter()
_SCRIPTS = ("tinyattn", "tinyattn.exe", "tinyattn-script.py")


def command_start():
    """``time.perf_counter()`` at the start of the command; now in other programs, which may call it at any time."""
    return _BEGAN if _is_command() else time.perf_counter()


def exit_on_interrupt():
    """Make Ctrl-C exit the process, if it is the command and SIGINT has Python's default handler."""
    if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


def raise_on_interrupt():
    """Make Ctrl-C raise KeyboardInterrupt again after the imports, so that work is ended in order."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, interrupt)


def interrupt(number, frame):
    """Signal handler: raise KeyboardInterrupt, but never inside a finalizer (``__del__``).

    Python prints and ignores an exception in a finalizer. The interruption would be lost, and so would the resources
    that the finalizer releases. The signal is sent again after the finalizer has returned.
    """
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            threading.Timer(0.001, _signal_main_thread, [number]).start()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _signal_main_thread(number):
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident, number)  # interrupts blocking calls
    else:  # Windows
        signal.raise_signal(number)


def _exit(number, frame):
    os._exit(130)


def _is_command():
    """Whether the program is ``tinyattn`` or ``python -m tinyattn``, whose ``argv[0]`` is ``-m`` during the import."""
    program = sys.argv[0] if getattr(sys, "argv", None) else ""
    if program == "-m":
        words = sys.orig_argv
        return "-m" in words[:-1] and words[words.index("-m") + 1] == "tinyattn"
    return os.path.basename(program) in _SCRIPTS
