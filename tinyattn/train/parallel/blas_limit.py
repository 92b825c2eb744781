"""Limit the number of BLAS threads, with threadpoolctl."""

import contextlib
import threading

from ...backend import blas

_lock = threading.Lock()
_active = 0  # number of ``with`` blocks entered and not yet left
_controller = None
_limit = None


@contextlib.contextmanager
def blas_limit(threads):
    """Limit BLAS to ``threads`` threads in a ``with`` block.

    The limit is per process. If blocks in different threads overlap, the first to enter sets the limit and the last to
    leave restores the previous one.
    """
    global _active, _limit
    with _lock:
        if _active == 0:
            _limit = _set_limit(threads)
        _active += 1
    try:
        # Kernels query ``blas.has_one_thread``.
        with blas.one_thread() if threads == 1 else contextlib.nullcontext():
            yield
    finally:
        with _lock:
            _active -= 1
            if _active == 0 and _limit is not None:
                _limit.restore_original_limits()


def _set_limit(threads):
    """Set the limit; returns threadpoolctl's object to restore it, or None if BLAS already uses few enough threads."""
    global _controller
    if _controller is None:
        from threadpoolctl import ThreadpoolController

        _controller = ThreadpoolController().select(user_api="blas")
    if all(library.num_threads <= threads for library in _controller.lib_controllers):
        return None
    return _controller.limit(limits=threads)
