"""The CuPy backend: the devices ``"cuda"``, ``"cuda:1"``, ...

It is imported only when such a device is requested. Float32 matrix products have full precision; CuPy rounds their
inputs to TF32 only if the environment variable CUPY_TF32 is set.
"""

import numpy as np

from .base import Backend, register_array_type
from .host import host_array
from .memory import gpu_memory_limit

try:
    import cupy
    import cupyx
except ImportError as error:
    raise RuntimeError(
        f'a "cuda" device was requested, but CuPy is missing ({error}): install it with '
        "pip install cupy-cuda13x (cupy-cuda12x for a CUDA 12 driver), "
        'or use the device "cpu", or "strict" to check code without a GPU'
    ) from error


class CupyBackend(Backend):
    """CuPy on one GPU.

    CuPy allocates and computes on the current GPU of the calling thread. Every allocation of this backend makes its GPU
    the current one; each thread of tinyattn uses only one GPU.

    Sums over duplicate indices use atomic additions in no fixed order: in floating point the last bit may differ
    between runs, and from the CPU.

    Args:
        number: the number of the GPU, counted from 0.

    Raises:
        RuntimeError: if there is no GPU of that number, or no driver.
    """

    kind = "cuda"
    xp = cupy
    array_type = cupy.ndarray

    def __init__(self, number):
        self.device = f"cuda:{number}" if number else "cuda"
        count = _count_gpus(self.device)
        if number >= count:
            present = ", ".join(f"cuda:{i}" for i in range(count))
            raise RuntimeError(
                f'device "{self.device}" was requested, but this machine has only {present}'
            )
        self._gpu = cupy.cuda.Device(number)
        limit = gpu_memory_limit()
        if limit is not None:
            with self._gpu:
                cupy.get_default_memory_pool().set_limit(size=limit)

    def asarray(self, data, dtype=None):
        self._gpu.use()
        if isinstance(data, cupy.ndarray):
            data = self.untracked(data)
        elif isinstance(data, np.ndarray):
            data = host_array(data)
        return cupy.asarray(data, dtype=dtype)

    def empty(self, shape, dtype):
        self._gpu.use()
        return cupy.empty(shape, dtype=dtype)

    def zeros(self, shape, dtype):
        self._gpu.use()
        return cupy.zeros(shape, dtype=dtype)

    def to_host(self, array):
        if self.before_reading is not None:
            self.before_reading(self)
        return array.get()

    def tracked(self, array, on_write):
        view = array.view(type=TrackedCupyArray)
        view._on_write = on_write
        return view

    def untracked(self, array):
        return array if type(array) is cupy.ndarray else array.view(type=cupy.ndarray)

    def equality(self, array, same):
        view = array.view(type=_CupyEquality)
        view.same = same
        return view

    def scatter_add(self, target, index, values):
        if target.dtype.kind == "i" and target.dtype.itemsize == 8:
            # CuPy has no atomic addition of int64; in two's complement, addition of uint64 gives the same bits.
            target = target.view(cupy.uint64)
            if isinstance(values, cupy.ndarray):
                values = values.astype(cupy.int64, copy=False).view(cupy.uint64)
        cupyx.scatter_add(target, index, values)

    def check_indices(self, ids, size, name="index"):
        if ids.size == 0:
            return
        # Usually a single transfer from the GPU, instead of one for the minimum and one for the maximum.
        if bool(((ids < -size) | (ids >= size)).any()):
            super().check_indices(ids, size, name)

    def precisions(self):
        return ("tf32", "float16") if int(self._gpu.compute_capability) >= 80 else ("float16",)

    def synchronize(self):
        self._gpu.synchronize()


class TrackedCupyArray(cupy.ndarray):
    """A view of a tensor's memory on the GPU that reports writes, including those through its views.

    Writes through ``out=`` arguments and raw kernels are not detected.
    """

    def __array_finalize__(self, parent):
        self._on_write = getattr(parent, "_on_write", None)

    def _report(self):
        # Only views share the tensor's memory; computed results own theirs.
        if self._on_write is not None and self.base is not None:
            self._on_write()


class _CupyEquality(cupy.ndarray):
    """The counterpart of ``tracked.Equality``: its truth value is whether both tensors are the same object."""

    same = None

    def __bool__(self):
        if self.size != 1 and self.same is not None:
            return self.same
        return super().__bool__()


def _reporting(name):
    method = getattr(cupy.ndarray, name)

    def write(self, *args, **kwargs):
        if args and getattr(args[0], "is_tensor", False):
            return NotImplemented  # `x.data -= tensor` is then `x.data = x.data - tensor`
        result = method(self, *args, **kwargs)
        self._report()
        return result

    write.__name__ = name
    return write


for _name in (
    "__setitem__ __iadd__ __isub__ __imul__ __itruediv__ __ifloordiv__ __imod__ __ipow__ "
    "__iand__ __ior__ __ixor__ __ilshift__ __irshift__ fill partition put scatter_add "
    "scatter_max scatter_min set sort"
).split():
    setattr(TrackedCupyArray, _name, _reporting(_name))


_backends = {}


def backend_for(number):
    """The backend of a GPU; always the same object.

    Raises:
        RuntimeError: if there is no GPU of that number.
    """
    if number not in _backends:
        _backends[number] = CupyBackend(number)
    return _backends[number]


def _count_gpus(device):
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        count, reason = 0, str(error)
    else:
        reason = "the driver reports none"
    if count == 0:
        raise RuntimeError(
            f'device "{device}" was requested, but CuPy finds no NVIDIA GPU here ({reason}): '
            "install the NVIDIA driver that fits this CuPy, "
            'or use the device "cpu", or "strict" to check code without a GPU'
        )
    return count


register_array_type(cupy.ndarray, lambda array: backend_for(array.data.device_id))
