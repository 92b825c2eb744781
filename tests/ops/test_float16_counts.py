"""Means over more elements than float16 can represent: neither is the count infinite, nor the gradient 0."""

import numpy as np
import pytest

import tinyattn as ta

COUNT = 70_000
SHARE = 1 / COUNT
ids = np.zeros(COUNT, np.int64)
OPERATIONS = {
    "mean": (lambda x: ta.mean(x), SHARE),
    "mean, in the second order": (lambda x: ta.mean(x * x), 2 * SHARE),
    "var": (lambda x: ta.var(ta.concatenate([x, -x])), 2 * SHARE),
    "std": (lambda x: ta.std(ta.concatenate([x, -x])), SHARE),
    "mse_loss": (lambda x: ta.mse_loss(x, ta.zeros_like(x)), 2 * SHARE),
    "mse_loss, target": (lambda x: ta.mse_loss(ta.zeros_like(x), x), 2 * SHARE),
    "max": (ta.max, SHARE),
    "min": (ta.min, SHARE),
    "nll_loss": (lambda x: ta.nll_loss(x[:, None], ta.tensor(ids, device=x.device)), -SHARE),
    "cross_entropy": (
        lambda x: ta.cross_entropy(
            ta.stack([x, x], axis=-1) * ta.tensor([1.0, 0.0], dtype="float16", device=x.device),
            ta.tensor(ids + 1, device=x.device),
        ),
        SHARE / (1 + np.exp(-1)),
    ),
    "layer_norm": (lambda x: ta.layer_norm(x, COUNT)[:1].sum(), None),
    "rms_norm": (lambda x: ta.rms_norm(x, COUNT, eps=1e-12).sum(), 0.0),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("create_graph", [False, True])
def test_the_gradient_is_the_share_of_one_element(name, create_graph, device):
    operation, expected = OPERATIONS[name]
    x = ta.ones((COUNT,), dtype="float16", device=device, requires_grad=True)
    (gradient,) = ta.grad(operation(x), [x], create_graph=create_graph)
    assert gradient.dtype == np.float16
    if expected is None:
        assert np.isfinite(gradient.numpy()).all()
    else:
        np.testing.assert_allclose(gradient.numpy(), expected, rtol=2e-2, atol=6e-8)


def test_the_mean_has_the_value_that_is_known():
    x = ta.ones((COUNT,), dtype="float16", requires_grad=True)
    x.mean().backward()
    assert x.grad[0].item() == np.float16(1.43e-5)
