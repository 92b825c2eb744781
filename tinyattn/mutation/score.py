"""Run a check under each mutant of a function, and report which mutants it catches."""

import contextlib
import signal
import threading

from .rewrite import running

LIMIT = 60.0  # of one check [s]: a mutant may loop forever


def score(function, changes, is_caught):
    """Yield ``(Change, caught)`` for each mutant.

    Args:
        function: the function that is changed.
        changes: ``(Change, code object)`` pairs, as ``mutants(function)`` yields them.
        is_caught: called without arguments while the function runs the mutant's code.

    >>> from .mutants import mutants
    >>> from tinyattn.ops.trigonometric import sin_vjp
    >>> [caught for _, caught in score(sin_vjp, mutants(sin_vjp), lambda: True)][:2]
    [True, True]
    """
    for change, code in changes:
        with running(function, code):
            yield change, is_caught()


def caught_by(check, limit=LIMIT):
    """Whether ``check()`` returns True, raises, or does not end in time."""
    try:
        with time_limit(limit):
            return bool(check())
    except Exception:  # a mutant may raise anything
        return True


@contextlib.contextmanager
def time_limit(seconds):
    """Raise ``TimeoutError`` if the block takes longer than ``seconds``, where the system has SIGALRM."""
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return

    def expire(number, frame):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
