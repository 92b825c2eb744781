"""The strict backend: the device ``"strict"``, NumPy arrays with the restrictions of CuPy, for tests without a GPU."""

import numpy as np

from .base import Backend, register_array_type
from .host import host_array
from .strict_array import StrictArray
from .strict_namespace import NAMESPACE
from .strict_semantics import device_index


class StrictBackend(Backend):
    """Arrays with the restrictions of CuPy (see ``strict_array``), computed by NumPy.

    >>> from tinyattn.backend import get_backend
    >>> backend = get_backend("strict")
    >>> backend.to_host(backend.asarray([1.0, 2.0]) * 2)
    array([2., 4.])
    """

    device = "strict"
    kind = "strict"
    xp = NAMESPACE
    array_type = StrictArray

    def asarray(self, data, dtype=None):
        if isinstance(data, np.ndarray):
            data = host_array(data)
        return NAMESPACE.asarray(data, dtype)

    def to_host(self, array):
        if self.before_reading is not None:
            self.before_reading(self)
        return array.get()

    def tracked(self, array, on_write):
        return StrictArray(array._memory, on_write)

    def untracked(self, array):
        return array if type(array) is StrictArray else StrictArray(array._memory)

    def equality(self, array, same):
        return _StrictEquality(array._memory, same)

    def precisions(self):
        return ("tf32", "float16")  # those of the kernels that the simulator runs

    def scatter_add(self, target, index, values):
        indices = tuple(_memory(entry) for entry in index) if isinstance(index, tuple) else index
        numpy_index, _ = device_index(target.shape, _memory(indices))
        np.add.at(target._memory, numpy_index, _memory(values))


class _StrictEquality(StrictArray):
    """The counterpart of ``tracked.Equality``: its truth value is whether both tensors are the same object."""

    __slots__ = ("same",)

    def __init__(self, memory, same):
        super().__init__(memory)
        self.same = same

    def __bool__(self):
        return self.same if self.size != 1 else super().__bool__()


def _memory(value):
    return value._memory if isinstance(value, StrictArray) else value


BACKEND = StrictBackend()
register_array_type(StrictArray, lambda array: BACKEND)
