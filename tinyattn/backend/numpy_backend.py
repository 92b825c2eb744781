"""The NumPy backend: the device ``"cpu"``."""

import numpy as np

from . import pool
from .base import Backend, register_array_type
from .host import host_array, in_native_order
from .tracked import Equality, TrackedArray


class NumpyBackend(Backend):
    """NumPy on the CPU: the device ``"cpu"``."""

    device = "cpu"
    kind = "cpu"
    xp = np
    array_type = np.ndarray

    def asarray(self, data, dtype=None):
        return host_array(data, dtype)

    def empty(self, shape, dtype):
        return pool.empty(shape, dtype)

    def zeros(self, shape, dtype):
        return pool.zeros(shape, dtype)

    def to_host(self, array):
        return array

    def tracked(self, array, on_write):
        view = array.view(TrackedArray)
        view._on_write = on_write
        return view

    def untracked(self, array):
        if type(array) is not np.ndarray:
            array = array.view(np.ndarray)
        return in_native_order(array)

    def equality(self, array, same):
        result = np.asarray(array).view(Equality)
        result.same = same
        return result

    def scatter_add(self, target, index, values):
        np.add.at(target, index, values)


BACKEND = NumpyBackend()
register_array_type(np.ndarray, lambda array: BACKEND)
