"""Matrix products: those of linear layers pass through here, to cuBLAS, which computes them as ``--precision`` says.

float16 is summed in float32. float32 keeps its full precision, unless TF32 is allowed: see ``backend/precision.py``.
On the strict device NumPy computes what cuBLAS would, to rounding.
"""

import contextlib

import numpy as np

from ...backend import array_namespace, backend_of
from ...backend.precision import rounded_to_tf32, tf32_allowed


def multiply(left, right, out):
    """``left @ right`` for matrices or stacks of them, into ``out``, which it returns."""
    xp = array_namespace(left)
    rounds = left.dtype == np.float32 and tf32_allowed()
    if backend_of(left).kind == "strict":
        if rounds:
            left, right = (xp.asarray(rounded_to_tf32(a._memory)) for a in (left, right))
        elif left.dtype.itemsize < 4:
            wide = [xp.asarray(a._memory.astype(np.float32)) for a in (left, right)]
            out._memory[...] = xp.matmul(*wide)._memory
            return out
        return xp.matmul(left, right, out=out)
    with _tf32_of_cublas() if rounds else contextlib.nullcontext():
        return xp.matmul(left, right, out=out)


@contextlib.contextmanager
def _tf32_of_cublas():
    from cupy._core import get_compute_type, set_compute_type
    from cupy._core._routines_linalg import COMPUTE_TYPE_TF32

    before = get_compute_type(np.float32)
    set_compute_type(np.float32, COMPUTE_TYPE_TF32)
    try:
        yield
    finally:
        set_compute_type(np.float32, before)
