"""Splitting a sequence into blocks, and its adjoint."""

import numpy as np
import pytest

from tinyattn.attention.blocks import join_blocks, split_into_blocks
from tinyattn.backend import get_backend


@pytest.mark.parametrize(("length", "blocks"), [(6, 2), (7, 3), (1, 1), (0, 0)])
def test_joining_is_the_adjoint_and_the_inverse_of_splitting(length, blocks, random, device):
    backend = get_backend(device)
    x = random.standard_normal((2, length, 4))
    g = random.standard_normal((2, blocks, 3, 4))
    split = backend.to_host(split_into_blocks(backend.asarray(x), 3))
    joined = backend.to_host(join_blocks(backend.asarray(g), length))
    assert split.shape == g.shape and joined.shape == x.shape
    np.testing.assert_allclose(np.sum(split * g), np.sum(x * joined), atol=1e-12)
    np.testing.assert_array_equal(join_blocks(split, length), x)
