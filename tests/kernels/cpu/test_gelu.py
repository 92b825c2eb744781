"""The kernel of the exact GELU equals the float64 rule up to the precision of float32, also for large inputs."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.kernels.cpu import gelu as kernel


def rule_in_float64(x, g):
    with ta.reference():
        leaf = ta.tensor(x.astype(np.float64), requires_grad=True)
        out = ta.gelu(leaf)
        out.backward(ta.tensor(g.astype(np.float64)))
    return out.numpy(), leaf.grad.numpy()


@pytest.mark.parametrize("values", ["drawn", "spread", "far"])
def test_the_exact_kernel_equals_the_rule_in_float64(values, random):
    x = {
        "drawn": random.standard_normal((150, 130)),
        "spread": np.linspace(-9, 9, 40001),
        "far": np.array([-1e30, -40.0, -5.7, -5.6, -0.0, 0.0, 5.6, 5.7, 40.0, 1e19]),
    }[values].astype(np.float32)
    g = random.standard_normal(x.shape).astype(np.float32)
    with np.errstate(all="ignore"):
        out, slope = kernel.forward(x, approximate="none")
    expected, dx = rule_in_float64(x, g)
    np.testing.assert_allclose(out, expected, rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(kernel.backward(g, slope), dx, rtol=2e-6, atol=1e-6)


def test_nan_stays_nan():
    out, slope = kernel.forward(np.array([np.nan, 1.0], np.float32), approximate="none")
    assert np.isnan(out[0]) and np.isnan(slope[0]) and np.isfinite(out[1])


def test_the_rule_runs_in_float64():
    assert kernel.forward(np.ones(3), approximate="none") is NotImplemented
