"""Limit the number of BLAS threads, with threadpoolctl."""

import contextlib
import threading

from ...backend import blas

_lock = threading.Lock()
_holders = 0
_controller = None
_limit = None


@contextlib.contextmanager
def blas_limit(threads):
    """Limit BLAS to ``threads`` threads in a ``with`` block.

    BLAS has one limit a process. If several blocks overlap in time, in different threads, the first to enter sets the
    limit and the last to leave restores what it was.
    """
    global _holders, _limit
    with _lock:
        if _holders == 0:
            _limit = _set_limit(threads)
        _holders += 1
    try:
        with blas.one_thread() if threads == 1 else contextlib.nullcontext():
            yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0 and _limit is not None:
                _limit.restore_original_limits()


def _set_limit(threads):
    """The limit as threadpoolctl's object, or None where BLAS has no more threads anyway."""
    global _controller
    if _controller is None:
        from threadpoolctl import ThreadpoolController

        _controller = ThreadpoolController().select(user_api="blas")
    if all(library.num_threads <= threads for library in _controller.lib_controllers):
        return None
    return _controller.limit(limits=threads)
