"""Products by cuBLAS: the arguments that it gets, executed on the same addresses."""

import ctypes
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tinyattn.backend import get_backend
from tinyattn.backend.launches import recorded_launches
from tinyattn.backend.precision import rounded_to_tf32, tf32_products
from tinyattn.kernels.cuda import products
from tinyattn.kernels.cuda.products import (
    multiply_add,
    multiply_stacks,
    repeated,
    stack_in,
    stack_of,
)

STRICT = get_backend("strict")


def strict(array):
    return STRICT.asarray(np.ascontiguousarray(array))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("left_transposed", [False, True])
@pytest.mark.parametrize("right_transposed", [False, True])
@pytest.mark.parametrize("sizes", [(3, 4, 5), (1, 4, 5), (3, 1, 5), (3, 4, 1), (2, 2, 2)])
@pytest.mark.parametrize("shared", ["neither", "left", "right"])
def test_stacks_are_multiplied_matrix_by_matrix(
    sizes, shared, left_transposed, right_transposed, dtype, random
):
    rows, inner, columns = sizes
    left = random.standard_normal((3, rows, inner)).astype(dtype)
    right = random.standard_normal((3, inner, columns)).astype(dtype)
    stacks = []
    for name, array, transposed in (
        ("left", left, left_transposed),
        ("right", right, right_transposed),
    ):
        if name == shared:
            array[...] = array[:1]
        memory = strict(array.mT if transposed else array)
        stack = repeated(memory[0], 3) if name == shared else stack_in(memory)
        stacks.append(stack.T if transposed else stack)
    out = STRICT.empty((3, rows, columns), dtype)
    multiply_stacks(*stacks, out)
    wide = np.promote_types(dtype, "float32")
    expected = (left.astype(wide) @ right.astype(wide)).astype(dtype)
    np.testing.assert_allclose(out.get(), expected, rtol=0, atol=8 * np.finfo(dtype).eps)


def test_a_product_is_added_to_a_matrix(random):
    x, y, out = (strict(random.standard_normal(shape)) for shape in ((3, 4), (4, 5), (3, 5)))
    expected = out.get() + x.get() @ y.get()
    with recorded_launches() as launches:
        assert multiply_add(x, y, out) is out
    assert launches == ["matmul"]
    np.testing.assert_allclose(out.get(), expected, rtol=1e-14)


def test_matrices_at_equal_distances_are_not_copied(random):
    flat = strict(random.standard_normal(40))
    matrices = [flat[start : start + 6].reshape(2, 3) for start in (0, 16, 32)]
    with recorded_launches() as launches:
        stack = stack_of(matrices)
    assert stack.step == 16 and not launches
    x = strict(random.standard_normal((4, 2)))
    found = multiply_stacks(repeated(x, 3), stack, STRICT.empty((3, 4, 3), "float64")).get()
    for product, matrix in zip(found, matrices):
        np.testing.assert_allclose(product, x.get() @ matrix.get(), rtol=1e-14)


@pytest.mark.parametrize("starts", [(0, 8, 32), (32, 16, 0)], ids=["unequal", "descending"])
def test_matrices_at_other_distances_are_copied(starts, random):
    flat = strict(random.standard_normal(40))
    matrices = [flat[start : start + 6].reshape(2, 3) for start in starts]
    with recorded_launches() as launches:
        stack = stack_of(matrices)
    assert stack.step == 6 and launches == ["stack"]


def test_tf32_rounds_the_operands_of_stacks(random):
    left, right = (random.standard_normal((2, 3, 3)).astype("float32") for _ in range(2))
    out = STRICT.empty((2, 3, 3), "float32")
    with tf32_products():
        multiply_stacks(stack_in(strict(left)), stack_in(strict(right)), out)
    expected = rounded_to_tf32(left) @ rounded_to_tf32(right)
    np.testing.assert_allclose(out.get(), expected, rtol=1e-6)
    assert np.abs(out.get() - left @ right).max() > 1e-5


def stand_in_for_cublas(received):
    """A function with the parameters of CuPy's ``gemmStridedBatchedEx``, which NumPy computes."""

    def gemm(
        handle, transa, transb, m, n, k, alpha, a, a_type, lda, step_a, b, b_type, ldb, step_b,
        beta, c, c_type, ldc, step_c, count, compute_type, algorithm,
    ):  # fmt: skip
        dtype = np.dtype(a_type)
        assert a_type == b_type == c_type and handle == "handle"
        factor = ctypes.c_double if a_type == "float64" else ctypes.c_float
        assert factor.from_address(alpha).value == 1.0
        add = factor.from_address(beta).value == 1.0
        shape = transa, transb, m, n, k
        arrays = a, lda, step_a, b, ldb, step_b, c, ldc, step_c, count
        products.simulate_cublas(*shape, *arrays, dtype=dtype, add=add, rounds_to_tf32=False)
        received.append((compute_type, add))

    return gemm


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize(
    ("dtype", "tf32", "compute_type"),
    [
        ("float64", False, "64F"),
        ("float32", False, "32F"),
        ("float32", True, "32F_FAST_TF32"),
        ("float16", False, "32F"),
    ],
)
def test_cublas_gets_its_arguments_in_order(dtype, tf32, compute_type, add, random, monkeypatch):
    received = []
    types = {"CUDA_R_16F": "float16", "CUDA_R_32F": "float32", "CUDA_R_64F": "float64"}
    names = ("64F", "32F", "32F_FAST_TF32")
    cublas = SimpleNamespace(
        gemmStridedBatchedEx=stand_in_for_cublas(received),
        CUBLAS_GEMM_DEFAULT=-1,
        **{f"CUBLAS_COMPUTE_{name}": name for name in names},
    )
    device = SimpleNamespace(get_cublas_handle=lambda: "handle")
    cuda = SimpleNamespace(device=device, runtime=SimpleNamespace(**types))
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.libs", SimpleNamespace(cublas=cublas))

    x, y, out = (
        strict(random.standard_normal(shape).astype(dtype))
        for shape in ((2, 3, 4), (2, 5, 4), (2, 3, 5))
    )
    expected = x.get() @ y.get().mT + (out.get() if add else 0)
    arguments = products.stack_arguments(stack_in(x), stack_in(y).T, out)
    products._run_cublas(arguments, np.dtype(dtype), add, tf32)
    np.testing.assert_allclose(out.get(), expected, atol=20 * np.finfo(dtype).eps)
    assert received == [(compute_type, add)]
