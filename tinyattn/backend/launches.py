"""Record kernel launches on ``"cuda"`` and ``"strict"``."""

import contextlib
import contextvars

_log = contextvars.ContextVar("tinyattn_launches", default=None)


@contextlib.contextmanager
def recorded_launches():
    """Record the name of every kernel launch inside a ``with`` block in a list.

    On ``"strict"`` these are kernels and array operations, as CuPy would launch them, and ``"read"`` where the host
    would wait for a value. On ``"cuda"`` they are only the kernels of ``kernels/cuda``, because CuPy does not report
    its own.

    >>> from tinyattn.backend import get_backend
    >>> x = get_backend("strict").asarray([1.0, 2.0])
    >>> with recorded_launches() as launches:
    ...     _ = (x + x) * 2
    >>> launches
    ['add', 'multiply']
    """
    launches = []
    token = _log.set(launches)
    try:
        yield launches
    finally:
        _log.reset(token)


def note_launch(name):
    """Record a launch if ``recorded_launches`` is active."""
    launches = _log.get()
    if launches is not None:
        launches.append(name)
