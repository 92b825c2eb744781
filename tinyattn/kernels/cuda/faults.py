"""Indices out of range: noted on the device by the kernel that meets one, and reported without a wait.

To raise an error at once the host would have to wait for the device. A training step, in ``first_order()``, does not:
there the error comes when the next result is read, the loss say. Everywhere else the kernel's caller waits, and leaves
the error to the rule.
"""

import weakref

import numpy as np

from ...autograd.modes import current_mode

_arrays = weakref.WeakKeyDictionary()  # backend -> int32 (3,): what, the index, the limit
_KINDS = {1: ("embedding", "id"), 2: ("cross_entropy", "target")}


def fault_array(backend):
    """Where kernels note a wrong index: an array on the device."""
    array = _arrays.get(backend)
    if array is None:
        array = _arrays[backend] = backend.zeros((3,), np.int32)
        backend.before_reading = raise_pending
    return array


def found(backend):
    """Whether an index was wrong; False in ``first_order()``, where nobody waits. What was noted is forgotten."""
    if current_mode.get().first_order:
        return False
    array = _arrays[backend]
    if not int(array[0]):
        return False
    array.fill(0)
    return True


def raise_pending(backend):
    """Raise IndexError if a kernel has met a wrong index: called before a result is read."""
    array = _arrays[backend]
    kind, index, limit = array.get().tolist()
    if not kind:
        return
    array.fill(0)
    operation, name = _KINDS[kind]
    raise IndexError(
        f"{operation}() got the {name} {index}: expected integers in 0 .. {limit - 1} "
        "(found now that a result is read; everything computed since is wrong)"
    )
