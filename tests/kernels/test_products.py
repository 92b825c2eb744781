"""Products in pieces equal whole ones, whatever the strides of their operands."""

import numpy as np
import pytest

from tinyattn.kernels.cpu import products
from tinyattn.kernels.cpu.products import multiply


@pytest.mark.parametrize("rows", [1, 7, 12, 48])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_product_in_pieces_equals_the_whole(rows, transposed, random, monkeypatch):
    monkeypatch.setattr(products, "_LARGEST_UNCOPIED", 200)
    products._pieces.cache_clear()
    left = random.standard_normal((2, 3, 5, rows) if transposed else (2, 3, rows, 5))
    left = left.swapaxes(-1, -2) if transposed else left
    right = random.standard_normal((2, 6, 3, 5)).swapaxes(1, 2)[..., :6, :].swapaxes(-1, -2)
    memory = np.full((2, rows, 3, 7), np.nan)
    out = memory.swapaxes(1, 2)[..., :6]
    assert multiply(left, right, out) is out
    np.testing.assert_allclose(out, left @ right, rtol=1e-13)
    assert np.isnan(memory[..., 6]).all()
    products._pieces.cache_clear()


def test_pieces_are_small_enough_to_be_multiplied_without_a_copy(monkeypatch):
    calls = []
    monkeypatch.setattr(np, "matmul", lambda *operands, out: calls.append((*operands, out)))
    multiply(np.empty((2, 128, 64)), np.empty((2, 64, 512)), np.empty((2, 128, 512)))
    (left, right, out) = calls[0]
    assert (left.shape, right.shape, out.shape) == (
        (2, 8, 16, 64),
        (2, 1, 64, 512),
        (2, 8, 16, 512),
    )
