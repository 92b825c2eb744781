"""Track whether BLAS is limited to one thread."""

import contextlib
import contextvars

_one_thread = contextvars.ContextVar("tinyattn_blas_has_one_thread", default=False)


def has_one_thread():
    """Whether BLAS is known to compute each product in one thread, as it does for workers.

    >>> with one_thread():
    ...     has_one_thread()
    True
    """
    return _one_thread.get()


@contextlib.contextmanager
def one_thread():
    """Declare that BLAS is limited to one thread in a ``with`` block and in what is called there."""
    token = _one_thread.set(True)
    try:
        yield
    finally:
        _one_thread.reset(token)
