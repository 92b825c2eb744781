"""Fixtures of the hard cases: leaves in double precision, and comparison with known values."""

import numpy as np
import pytest

import tinyattn as ta


@pytest.fixture
def leaf(device):
    """``leaf(values)``: a float64 tensor on the device under test that wants its gradient."""

    def make(values, dtype=np.float64):
        return ta.tensor(np.array(values, dtype), requires_grad=True, device=device)

    return make


@pytest.fixture
def constant(device):
    """``constant(values)``: a float64 tensor on the device under test that wants none."""

    def make(values, dtype=np.float64):
        return ta.tensor(np.array(values, dtype), device=device)

    return make


@pytest.fixture
def equals():
    """``equals(tensor, expected)``: the same shape and values; ``decimals`` where the case gives so many."""

    def compare(actual, expected, decimals=None):
        host = actual.numpy() if isinstance(actual, ta.Tensor) else actual
        expected = np.asarray(expected, dtype=np.float64)
        assert host.shape == expected.shape
        tolerance = {"atol": 0.51 * 10.0**-decimals, "rtol": 0} if decimals else {"rtol": 1e-12}
        np.testing.assert_allclose(host, expected, **tolerance)

    return compare
