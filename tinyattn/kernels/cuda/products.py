"""Matrix products by cuBLAS, as ``--precision`` says: those of linear layers.

float16 is summed in float32. float32 keeps its full precision, unless TF32 is allowed: see ``backend/precision.py``.
On the strict device NumPy computes what cuBLAS would, up to rounding.

Stacks of products, and products that are added to an array, go to cuBLAS directly, with the arguments that
``stack_arguments`` computes. ``simulate_cublas`` is a cuBLAS for the strict device: it takes the same arguments and
reads the same addresses.

Trade-offs: more code than ``matmul`` of CuPy, which copies transposed stacks, makes a table of addresses for a
matrix that all products share, does not use TF32 for stacks, and cannot add to an array.
"""

import contextlib
import ctypes
import itertools
from typing import NamedTuple

import numpy as np

from ...backend import array_namespace, backend_of
from ...backend.launches import note_launch
from ...backend.precision import rounded_to_tf32, tf32_allowed


def multiply(left, right, out):
    """``left @ right`` for matrices, into ``out``, which it returns."""
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


# ---------------------------------------------------------------------------------------------------- stacks


class Stack(NamedTuple):
    """Matrices of one shape at equal distances in memory."""

    first: object  # the first one, a contiguous matrix or the transpose of one
    count: int
    step: int  # elements from one to the next; 0 if all are the same

    @property
    def T(self):
        return self._replace(first=self.first.T)


def stack_of(matrices):
    """The ``Stack`` of a list of matrices; contiguous ones at equal distances, as in flat storage, are not copied."""
    addresses = [_address(matrix) for matrix in matrices]
    item = matrices[0].dtype.itemsize
    steps = {after - before for before, after in itertools.pairwise(addresses)}
    step = steps.pop() if steps else 0
    if (
        steps
        or step < 0
        or step % item
        or any(not matrix.flags.c_contiguous for matrix in matrices)
    ):
        together = array_namespace(matrices[0]).stack(matrices)
        return stack_in(together)
    return Stack(matrices[0], len(matrices), step // item)


def stack_in(array):
    """The ``Stack`` of the matrices of a contiguous array, (count, rows, columns)."""
    return Stack(array[0], array.shape[0], array[0].size)


def repeated(matrix, count):
    """The ``Stack`` of one matrix, several times."""
    return Stack(matrix, count, 0)


def multiply_add(left, right, out):
    """Add ``left @ right`` to the contiguous matrix ``out``, in one launch; returns ``out``."""
    multiply_stacks(repeated(left, 1), repeated(right, 1), out[None], add=True)
    return out


def multiply_stacks(left, right, out, add=False):
    """The products of two stacks of matrices into the contiguous array ``out``, (count, rows, columns), in one launch.

    Args:
        add: whether to add the products to what ``out`` contains.

    >>> from tinyattn.backend import get_backend
    >>> xp = get_backend("strict").xp
    >>> x, weights = xp.ones((2, 3)), xp.ones((4, 3, 5))
    >>> multiply_stacks(repeated(x, 4), stack_in(weights), xp.empty((4, 2, 5)))[3, 1, 1].item()
    3.0
    """
    arguments = stack_arguments(left, right, out)
    rounds = out.dtype == np.float32 and tf32_allowed()
    if backend_of(out).kind == "strict":
        note_launch("matmul")
        simulate_cublas(*arguments, dtype=out.dtype, add=add, rounds_to_tf32=rounds)
        return out
    with out.device:
        _run_cublas(arguments, out.dtype, add, rounds)
    return out


def stack_arguments(left, right, out):
    """The arguments of ``cublasGemmStridedBatchedEx`` for products of contiguous matrices, without types and factors.

    cuBLAS stores matrices by columns: it sees the transpose of each, and computes C^T = B^T A^T.
    """
    rows, inner = left.first.shape
    columns = right.first.shape[1]
    return (
        not right.first.flags.c_contiguous,
        not left.first.flags.c_contiguous,
        columns,
        rows,
        inner,
        *_operand(right),
        *_operand(left),
        _address(out),
        columns,
        rows * columns,
        out.shape[0],
    )


def _operand(stack):
    """Address, leading dimension, and step of a stack."""
    matrix = stack.first
    leading = matrix.shape[1] if matrix.flags.c_contiguous else matrix.shape[0]
    return _address(matrix), leading, stack.step


def _address(array):
    memory = getattr(array, "_memory", None)
    return array.data.ptr if memory is None else memory.ctypes.data


def _run_cublas(arguments, dtype, add, rounds_to_tf32):
    from cupy.cuda import device, runtime
    from cupy_backends.cuda.libs import cublas

    transa, transb, m, n, k, a, lda, step_a, b, ldb, step_b, c, ldc, step_c, count = arguments
    kind = {"e": runtime.CUDA_R_16F, "f": runtime.CUDA_R_32F, "d": runtime.CUDA_R_64F}[dtype.char]
    compute = cublas.CUBLAS_COMPUTE_64F if dtype.char == "d" else cublas.CUBLAS_COMPUTE_32F
    if rounds_to_tf32:
        compute = cublas.CUBLAS_COMPUTE_32F_FAST_TF32
    factors = np.array([1, add], np.float64 if dtype.char == "d" else np.float32)
    alpha, beta = factors.ctypes.data, factors.ctypes.data + factors.itemsize
    first = a, kind, lda, step_a
    second = b, kind, ldb, step_b
    result = c, kind, ldc, step_c, count, compute, cublas.CUBLAS_GEMM_DEFAULT
    shape = int(transa), int(transb), m, n, k
    handle = device.get_cublas_handle()
    cublas.gemmStridedBatchedEx(handle, *shape, alpha, *first, *second, beta, *result)


def simulate_cublas(
    transa,
    transb,
    m,
    n,
    k,
    a,
    lda,
    step_a,
    b,
    ldb,
    step_b,
    c,
    ldc,
    step_c,
    count,
    *,
    dtype,
    add,
    rounds_to_tf32,
):
    """Simulate ``cublasGemmStridedBatchedEx``: C_i = op(A_i) op(B_i) + beta C_i, for matrices stored by columns.

    op(A) is m x k, op(B) k x n, C m x n; column j of a matrix begins ``ld`` elements after column j - 1.
    """

    def matrices(address, rows, columns, leading, step):
        item = dtype.itemsize
        size = (count - 1) * step + (columns - 1) * leading + rows
        memory = np.ctypeslib.as_array((ctypes.c_char * (size * item)).from_address(address))
        strides = step * item, item, leading * item
        return np.ndarray((count, rows, columns), dtype, memory, strides=strides)

    left = matrices(a, *((k, m) if transa else (m, k)), lda, step_a)
    right = matrices(b, *((n, k) if transb else (k, n)), ldb, step_b)
    left = left.mT if transa else left
    right = right.mT if transb else right
    if rounds_to_tf32:
        left, right = rounded_to_tf32(left), rounded_to_tf32(right)
    wide = np.promote_types(dtype, np.float32)
    result = matrices(c, m, n, ldc, step_c)
    product = np.matmul(left.astype(wide), right.astype(wide))
    result[...] = product + result if add else product
