"""Indices out of range: recorded on the device by the kernel, and reported without synchronization.

To raise an error at once, the host would have to wait for the device. In a training step, in ``first_order()``, it does
not: the error is raised when the next result is read, such as the loss. Outside of it the host waits, and the rule
raises the error.

Trade-offs: no synchronization in a step, but the error is raised later than its cause.
"""

import weakref

import numpy as np

from ...autograd.modes import current_mode

_arrays = weakref.WeakKeyDictionary()  # backend -> int32 (3,): what, the index, the limit
_KINDS = {1: ("embedding", "id"), 2: ("cross_entropy", "target")}


def fault_array(backend):
    """The array on the device in which kernels record an index out of range."""
    array = _arrays.get(backend)
    if array is None:
        array = _arrays[backend] = backend.zeros((3,), np.int32)
        backend.before_reading = raise_pending
    return array


def found(backend):
    """Whether an index was out of range; clears the record. In ``first_order()`` False, without waiting."""
    if current_mode.get().first_order:
        return False
    array = _arrays[backend]
    if not int(array[0]):
        return False
    array.fill(0)
    return True


def raise_pending(backend):
    """Raise IndexError if a kernel has recorded an index out of range; called before a result is read."""
    array = _arrays[backend]
    kind, index, limit = array.get().tolist()
    if not kind:
        return
    array.fill(0)
    operation, name = _KINDS[kind]
    raise IndexError(
        f"{operation}() got the {name} {index}: expected integers in 0 .. {limit - 1} "
        "(reported when a result is read: all results computed since are wrong)"
    )
