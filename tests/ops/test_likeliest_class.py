"""Gradients of softmax and related functions at a class whose probability is rounded to 1.

Held against extended precision by formulas without cancellation, relatively, element by element: with kernels and by
the rules, first and second order.
"""

import contextlib

import numpy as np
import pytest

import tinyattn as ta

real = np.longdouble
DISTANCES = (1.0, 5.0, 17.0, 20.0, 38.0, 60.0, 80.0)
TOLERANCE = {"float64": 1e-12, "float32": 3e-5, "float16": 1e-2}
DTYPES = pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
WAYS = pytest.mark.parametrize("way", [ta.reference, contextlib.nullcontext])


def rows(dtype):
    """Scores whose likeliest class is ahead by each distance, in each place, and a cotangent."""
    random = np.random.default_rng(0)
    scores = random.integers(-2, 3, (len(DISTANCES), 4)) / 8
    for row, distance in enumerate(DISTANCES):
        scores[row, row % 4] = 0.25 + distance
    if dtype == "float16":
        scores = scores[:3]  # of larger distances the other probabilities are 0
    cotangents = random.permuted(np.tile([0.5, 0.75, 1.25, 2.5], (len(scores), 1)), axis=1)
    return scores.astype(dtype), cotangents.astype(dtype)


def probabilities(x):
    e = np.exp(x.astype(real) - x.astype(real).max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax_gradient(p, g):
    """sum_i p_j p_i (g_j - g_i): nothing cancels but what the cotangents have in common."""
    return np.einsum("rj,ri,rji->rj", p, p, g[:, :, None] - g[:, None, :])


def without_cancellation(rest, at):
    """``rest`` with minus the sum of the others in the columns ``at``, one a row."""
    result, row = rest.copy(), np.arange(len(rest))
    result[row, at] = 0
    result[row, at] = -result.sum(-1)
    return result


def compare(found, expected, dtype):
    smallest = np.finfo(dtype).smallest_subnormal
    np.testing.assert_allclose(found.numpy(), expected, rtol=TOLERANCE[dtype], atol=4 * smallest)


def leaf(array, device):
    return ta.tensor(array, requires_grad=True, device=device)


@DTYPES
@WAYS
def test_softmax(dtype, way, device):
    x, g = rows(dtype)
    p = probabilities(x)
    tensor, cotangent = leaf(x, device), leaf(g, device)
    with way():
        (first,) = ta.grad(ta.softmax(tensor), [tensor], cotangent)
        (again,) = ta.grad(ta.softmax(tensor), [tensor], cotangent, create_graph=True)
        # Linear in the cotangent, with a symmetric matrix: its own gradient is the same map again.
        (mixed,) = ta.grad(again, [cotangent], ta.tensor(g[::-1].copy(), device=device))
    compare(first, softmax_gradient(p, g.astype(real)), dtype)
    compare(again, softmax_gradient(p, g.astype(real)), dtype)
    if dtype != "float16":  # which rounds what is between the two orders
        compare(mixed, softmax_gradient(p, g[::-1].astype(real)), dtype)


@DTYPES
@WAYS
@pytest.mark.parametrize("alone", [False, True])
def test_log_softmax(dtype, way, alone, device):
    """With a cotangent at every class, and at the likeliest alone."""
    x, g = rows(dtype)
    p = probabilities(x)
    if alone:
        g = g * (x == x.max(-1, keepdims=True))
    tensor = leaf(x, device)
    with way():
        (first,) = ta.grad(ta.log_softmax(tensor), [tensor], ta.tensor(g, device=device))
    total = g.astype(real).sum(-1, keepdims=True)
    compare(first, without_cancellation(g - p * total, x.argmax(-1)), dtype)


@DTYPES
@WAYS
@pytest.mark.parametrize("target", ["likeliest", "other"])
@pytest.mark.parametrize("label_smoothing", [0.0, 1e-3])
def test_cross_entropy(dtype, way, target, label_smoothing, device):
    x, _ = rows(dtype)
    p = probabilities(x)
    at = (x.argmax(-1) + (target == "other")) % 4
    q = np.full(x.shape, real(label_smoothing) / 4)
    q[np.arange(len(x)), at] += 1 - real(label_smoothing)
    tensor = leaf(x, device)
    with way():
        loss = ta.cross_entropy(
            tensor, ta.tensor(at, device=device), label_smoothing=label_smoothing, reduction="sum"
        )
        (first,) = ta.grad(loss, [tensor])
    compare(first, without_cancellation(p - q, x.argmax(-1)), dtype)


@WAYS
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_second_order_of_cross_entropy(dtype, way, device):
    """d/dz of (p - q) . v is softmax's gradient with the cotangent v."""
    x, v = rows(dtype)
    at = x.argmax(-1)
    tensor = leaf(x, device)
    with way():
        loss = ta.cross_entropy(tensor, ta.tensor(at, device=device), reduction="sum")
        (first,) = ta.grad(loss, [tensor], create_graph=True)
        (second,) = ta.grad(first, [tensor], ta.tensor(v, device=device))
    compare(second, softmax_gradient(probabilities(x), v.astype(real)), dtype)


def test_the_likeliest_class_has_the_values_that_are_known():
    z = ta.tensor([[40.0, 0.0]], dtype="float64", requires_grad=True)
    ta.cross_entropy(z, [0]).backward()
    assert z.grad[0].tolist() == pytest.approx([-4.248354255291589e-18, 4.248354255291589e-18])


@WAYS
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", ["auto", "dense", "window"])
def test_attention(dtype, way, kind, device):
    """Queries 1, keys the scores, values 1-dimensional: dk is the gradient of the scores."""
    if kind == "auto" and device != "cpu" and way is not ta.reference:
        pytest.skip("the kernel in tiles is exact to a rounding of the cotangent only")
    x, values = rows(dtype)
    q = np.ones((len(x), 4, 1), dtype)
    k, v = x[..., None], values[..., None]
    tensors = [leaf(array, device) for array in (q, k, v)]
    options = {"window": 8} if kind == "window" else {}
    with way():
        out = ta.scaled_dot_product_attention(*tensors, kind=kind, scale=1.0, **options)
        g = np.zeros(out.shape, dtype)
        g[:, 0] = 1  # one query speaks
        (dk,) = ta.grad(out, [tensors[1]], ta.tensor(g, device=device))
    expected = softmax_gradient(probabilities(x), values.astype(real))
    compare(dk[..., 0], expected, dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", ["flash", "ring"])
def test_attention_in_tiles(dtype, kind, device):
    """Each row is right to a few roundings of its weights' cotangents, g . v, also where a weight is nearly 1."""
    random = np.random.default_rng(0)
    length, width = 140, 4
    q, k, v, g = random.integers(-8, 9, (4, 2, length, width)) / 8
    q *= np.geomspace(1, 512, length)[:, None]  # scores of up to 1000
    tensors = [leaf(array.astype(dtype), device) for array in (q, k, v)]
    out = ta.scaled_dot_product_attention(*tensors, kind=kind, scale=0.5)
    dq, dk, _ = ta.grad(out, tensors, ta.tensor(g.astype(dtype), device=device))

    scores = 0.5 * np.einsum("hqd,hkd->hqk", *(array.astype(real) for array in (q, k)))
    e = np.exp(scores - scores.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    assert (p.max(-1) > 1 - np.finfo(dtype).eps).any()
    d_weights = np.einsum("hqd,hkd->hqk", g, v)
    d_scores = [softmax_gradient(*head) for head in zip(p, d_weights)]
    # The products' roundings, and those of a score, to which its exponential is proportional.
    of_products = width + np.abs(scores).max(-1, keepdims=True)
    error = np.finfo(dtype).eps * of_products * np.einsum("hqd,hkd->hqk", np.abs(g), np.abs(v))
    error = p * error.max(-1, keepdims=True)
    for found, subscripts, other in ((dq, "hqk,hkd->hqd", k), (dk, "hqk,hqd->hkd", q)):
        expected = 0.5 * np.einsum(subscripts, d_scores, other)
        bound = 0.5 * np.einsum(subscripts, error, np.abs(other))
        ratio = np.abs(found.numpy() - expected) / bound
        assert ratio.max() <= 1
