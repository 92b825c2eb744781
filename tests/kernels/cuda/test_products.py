"""Products by cuBLAS: the arguments that it gets, executed on the same addresses."""

import numpy as np
import pytest

from tinyattn.backend import get_backend
from tinyattn.backend.launches import recorded_launches
from tinyattn.backend.precision import rounded_to_tf32, tf32_products
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


def test_matrices_at_other_distances_are_copied(random):
    flat = strict(random.standard_normal(40))
    matrices = [flat[start : start + 6].reshape(2, 3) for start in (0, 8, 32)]
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
