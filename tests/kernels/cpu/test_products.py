"""Split matrix products equal whole ones, for any strides of the operands."""

import numpy as np
import pytest

from tinyattn.backend import blas
from tinyattn.kernels.cpu import products
from tinyattn.kernels.cpu.products import multiply, multiply_matrices


@pytest.fixture(params=[True, False], ids=["one thread", "several threads"], autouse=True)
def one_thread(request):
    """Products are split only if BLAS is limited to one thread; both results are equal."""
    if not request.param:
        yield False
        return
    with blas.one_thread():
        yield True


@pytest.mark.parametrize("rows", [1, 7, 12, 48])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_split_product_equals_the_whole(rows, transposed, random, monkeypatch):
    monkeypatch.setattr(products, "_LARGEST_UNCOPIED", 200)
    left = random.standard_normal((2, 3, 5, rows) if transposed else (2, 3, rows, 5))
    left = left.swapaxes(-1, -2) if transposed else left
    right = random.standard_normal((2, 6, 3, 5)).swapaxes(1, 2)[..., :6, :].swapaxes(-1, -2)
    memory = np.full((2, rows, 3, 7), np.nan)
    out = memory.swapaxes(1, 2)[..., :6]
    assert multiply(left, right, out) is out
    np.testing.assert_allclose(out, left @ right, rtol=1e-13)
    assert np.isnan(memory[..., 6]).all()


@pytest.mark.parametrize("rows", [1, 7, 48, 128])
@pytest.mark.parametrize("columns", [1, 9, 40])
@pytest.mark.parametrize("transposed", ["neither", "left", "right"])
def test_a_split_product_of_two_matrices_equals_the_whole(rows, columns, transposed, random):
    left, right = random.standard_normal((rows, 5)), random.standard_normal((5, columns))
    if transposed == "left":
        left = left.T.copy().T
    if transposed == "right":
        right = right.T.copy().T
    out = np.full((rows, columns), np.nan)
    multiply_matrices(left, right, out)
    np.testing.assert_allclose(out, left @ right, rtol=1e-12)


@pytest.fixture
def calls(monkeypatch):
    """The shapes of the operands that np.matmul gets."""
    seen = []

    def matmul(left, right, out):
        seen.append((left.shape, right.shape, out.shape))

    monkeypatch.setattr(np, "matmul", matmul)
    return seen


def test_pieces_are_small_enough_for_a_product_without_packing(calls, one_thread):
    multiply(np.empty((2, 128, 64)), np.empty((2, 64, 512)), np.empty((2, 128, 512)))
    whole = ((2, 128, 64), (2, 64, 512), (2, 128, 512))
    cut = ((2, 8, 16, 64), (2, 1, 64, 512), (2, 8, 16, 512))
    assert calls == [cut if one_thread else whole]


def test_matrices_larger_than_the_cache_are_not_split(calls, one_thread):
    for rows in (384, 4096):
        left, right, out = (np.empty(s, np.float32) for s in ((rows, 128), (128, 512), (rows, 512)))
        multiply_matrices(left, right, out)
    cut = ((8, 1, 48, 128), (32, 128, 16), (8, 32, 48, 16))
    assert calls[0] == (cut if one_thread else ((384, 128), (128, 512), (384, 512)))
    assert calls[1] == ((4096, 128), (128, 512), (4096, 512))
