"""Registry of fast optimizer updates on flat arrays, by name and backend.

They are not primitives, because they are not differentiated. The optimizer's own code is the definition, and runs if no
fast version is registered.
"""

from ..autograd.modes import current_mode
from ..autograd.primitive import kernel_kind

_UPDATES = {}


def register_update(name, kind, function):
    """Register a fast version of the update ``name`` for arrays of backends of ``kind``."""
    _UPDATES[name, kind] = function


def find_update(name, array):
    """Look up the fast version for the backend of an array; None if there is none."""
    return _UPDATES.get((name, kernel_kind(array))) if current_mode.get().kernels else None
