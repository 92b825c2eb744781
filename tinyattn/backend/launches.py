"""Which operations a GPU would be asked to run: on ``"cuda"`` and ``"strict"``, each is one launch."""

import contextlib
import contextvars

_log = contextvars.ContextVar("tinyattn_launches", default=None)


@contextlib.contextmanager
def recorded_launches():
    """A list that gets the name of every launch inside a ``with`` block, in their order.

    On ``"strict"`` these are kernels and array operations, as CuPy would launch them. On ``"cuda"`` they are the
    kernels of ``kernels/cuda`` only: CuPy does not tell of its own.

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
    """Add a launch to the lists that are being recorded."""
    launches = _log.get()
    if launches is not None:
        launches.append(name)
