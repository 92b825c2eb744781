"""Fast versions of what optimisers do to their flat arrays, looked up by name and by the arrays' backend.

They are no primitives: nothing is differentiated. Where there is none, the optimiser's own code runs, which says what
they compute.
"""

from ..autograd.modes import current_mode
from ..backend import backend_of

_UPDATES = {}


def register_update(name, kind, function):
    """Let ``function`` take the place of an update of that name, on arrays of backends of ``kind``."""
    _UPDATES[name, kind] = function


def find_update(name, array):
    """The fast version for an array, or None."""
    mode = current_mode.get()
    kind = backend_of(array).kind
    if mode.simulated and kind == "strict":
        kind = "cuda"
    return _UPDATES.get((name, kind)) if mode.kernels else None
