"""Registry of fast optimizer updates on flat arrays, by name and backend.

They are not primitives, because they are not differentiated. The optimizer's own code is the definition, and runs if no
fast version is registered.
"""

from ..autograd.modes import current_mode
from ..backend import backend_of

_UPDATES = {}


def register_update(name, kind, function):
    """Register a fast version of the update ``name`` for arrays of backends of ``kind``."""
    _UPDATES[name, kind] = function


def find_update(name, array):
    """Look up the fast version for the backend of an array; None if there is none."""
    mode = current_mode.get()
    kind = backend_of(array).kind
    if mode.simulated and kind == "strict":
        kind = "cuda"
    return _UPDATES.get((name, kind)) if mode.kernels else None
