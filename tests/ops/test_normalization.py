"""Layer norm and RMS norm."""

import contextlib

import numpy as np
import pytest

import tinyattn as ta
from tests.gradient import check_gradient


def by_hand(x, axes, eps=1e-5):
    mean = x.mean(axis=axes, keepdims=True)
    return (x - mean) / np.sqrt(x.var(axis=axes, keepdims=True) + eps)


def test_layer_norm_is_its_formula(device, random):
    x, weight, bias = random.standard_normal((2, 5, 4)), *random.standard_normal((2, 4))
    out = ta.layer_norm(*(ta.tensor(a, device=device) for a in (x,)), 4)
    np.testing.assert_allclose(out.numpy(), by_hand(x, -1), rtol=1e-12)
    out = ta.layer_norm(
        ta.tensor(x, device=device),
        (4,),
        ta.tensor(weight, device=device),
        ta.tensor(bias, device=device),
    )
    np.testing.assert_allclose(out.numpy(), by_hand(x, -1) * weight + bias, rtol=1e-11)


def test_rms_norm_is_its_formula(device, random):
    x, weight = random.standard_normal((2, 5, 4)), random.standard_normal(4)
    out = ta.rms_norm(
        ta.tensor(x, device=device), 4, weight=ta.tensor(weight, device=device), eps=1e-2
    )
    expected = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-2) * weight
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_a_row_does_not_depend_on_other_rows(norm, device, random):
    x = random.standard_normal((40, 24)).astype(np.float32)
    far = x.copy()
    far[::7] += 10000  # rows with a mean far above their deviation
    outs = [getattr(ta, norm)(ta.tensor(a, device=device), 24).numpy() for a in (x, far)]
    kept = np.arange(40) % 7 != 0
    np.testing.assert_array_equal(outs[0][kept], outs[1][kept])


def test_a_row_may_be_several_axes(device, random):
    x = random.standard_normal((2, 3, 4))
    weight, bias = random.standard_normal((2, 3, 4))
    tensors = [ta.tensor(a, device=device) for a in (x, weight, bias)]
    out = ta.layer_norm(tensors[0], (3, 4), *tensors[1:])
    np.testing.assert_allclose(out.numpy(), by_hand(x, (1, 2)) * weight + bias, rtol=1e-11)
    check_gradient(lambda x, w, b: ta.layer_norm(x, (3, 4), w, b), x, weight, bias, device=device)


@pytest.mark.parametrize("affine", ["weight and bias", "weight", "bias", "neither"])
def test_gradients_of_layer_norm_agree_with_differences_to_second_order(device, random, affine):
    x, weight, bias = random.standard_normal((2, 3, 5)), *random.standard_normal((2, 5))
    if affine == "weight and bias":
        check_gradient(lambda x, w, b: ta.layer_norm(x, 5, w, b), x, weight, bias, device=device)
    elif affine == "neither":
        check_gradient(lambda x: ta.layer_norm(x, 5), x, device=device)
    else:
        check_gradient(lambda x, a: ta.layer_norm(x, 5, **{affine: a}), x, weight, device=device)


def test_gradients_of_rms_norm_agree_with_differences_to_second_order(device, random):
    x, weight = random.standard_normal((2, 3, 5)), random.standard_normal(5)
    check_gradient(lambda x, w: ta.rms_norm(x, 5, w), x, weight, device=device)
    check_gradient(lambda x: ta.rms_norm(x, (3, 5)), x, device=device)


def test_the_gradient_is_orthogonal_to_directions_of_invariance(device, random):
    x = random.standard_normal((4, 6))
    leaf = ta.tensor(x, requires_grad=True, device=device)
    g = ta.tensor(random.standard_normal((4, 6)), device=device)
    ta.layer_norm(leaf, 6, eps=1e-12).backward(g)
    gradient = leaf.grad.numpy()
    np.testing.assert_allclose(gradient.sum(axis=-1), 0, atol=1e-12)  # a shift
    np.testing.assert_allclose((gradient * x).sum(axis=-1), 0, atol=1e-9)  # a scaling


@pytest.mark.parametrize("normalize", [ta.layer_norm, ta.rms_norm])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_dtype_is_kept_in_both_directions(device, random, normalize, dtype):
    x = ta.tensor(random.standard_normal((2, 8)).astype(dtype), requires_grad=True, device=device)
    weight = ta.tensor(np.ones(8, dtype), requires_grad=True, device=device)
    out = normalize(x, 8, weight)
    out.sum().backward()
    assert out.dtype == x.grad.dtype == weight.grad.dtype == dtype


@pytest.mark.parametrize("normalize", [ta.layer_norm, ta.rms_norm])
def test_float16_rows_whose_squares_overflow_float16(device, normalize):
    x = np.array([[1000.0, -1000.0, 2000.0, -2000.0]], "float16")
    expected = x.astype(float) / np.sqrt(2.5e6)
    np.testing.assert_allclose(
        normalize(ta.tensor(x, device=device), 4).numpy(), expected, rtol=2e-3
    )


@pytest.mark.parametrize("normalize", [ta.layer_norm, ta.rms_norm])
@pytest.mark.parametrize("eps", [0.0, -1e-5, float("nan")])
def test_eps_must_be_positive(device, normalize, eps):
    with pytest.raises(ValueError, match="eps"):
        normalize(ta.tensor(np.zeros((3, 4)), device=device), 4, eps=eps)


@pytest.mark.parametrize("normalize", [ta.layer_norm, ta.rms_norm])
def test_incompatible_shapes_are_an_error(device, normalize):
    x = ta.tensor(np.ones((3, 4)), device=device)
    with pytest.raises(ValueError, match=r"\(3, 4\).*normalized_shape=3"):
        normalize(x, 3)
    with pytest.raises(ValueError, match="normalized_shape"):
        normalize(x, ())
    with pytest.raises(ValueError, match=r"weight of shape \(3,\).*\(4,\)"):
        normalize(x, 4, ta.tensor(np.ones(3), device=device))
    with pytest.raises(ValueError, match="without elements"):
        normalize(ta.tensor(np.ones((3, 0)), device=device), 0)


@pytest.mark.parametrize("normalize", [ta.layer_norm, ta.rms_norm])
def test_no_rows_give_no_rows_and_a_weight_gradient_of_zeros(device, normalize):
    x = ta.tensor(np.ones((0, 4)), requires_grad=True, device=device)
    weight = ta.tensor(np.ones(4), requires_grad=True, device=device)
    out = normalize(x, 4, weight)
    assert out.shape == (0, 4)
    out.sum().backward()
    assert x.grad.shape == (0, 4)
    assert weight.grad.tolist() == [0.0] * 4


@pytest.mark.parametrize("normalize", [ta.layer_norm, ta.rms_norm])
def test_integers_and_lists_are_converted_to_float32(device, normalize):
    expected = normalize(ta.tensor([1.0, 2.0, 4.0]), 3).numpy()
    with ta.device(device):
        for x in ([1, 2, 4], ta.tensor([1, 2, 4])):
            out = normalize(x, 3)
            assert out.dtype == "float32" and out.device == device
            np.testing.assert_allclose(out.numpy(), expected, rtol=1e-6)


def test_a_row_may_be_named_by_a_number_of_numpys_and_scaled_by_a_list():
    x = ta.tensor([[1.0, 3.0]])
    y = ta.layer_norm(x, np.int64(2), weight=[1.0, 2.0])
    np.testing.assert_allclose(y.numpy(), [[-1, 2]], rtol=1e-4)


@pytest.mark.parametrize("way", [ta.reference, contextlib.nullcontext])
@pytest.mark.parametrize(
    ("dtype", "size"), [("float32", 1e19), ("float32", 1e30), ("float64", 1e200), ("float16", 6e4)]
)
@pytest.mark.parametrize("normalize", [ta.layer_norm, ta.rms_norm])
def test_rows_whose_squares_overflow_are_normalized(normalize, dtype, size, way, device):
    """They do not change the ordinary rows; and the gradient is 1 / size, first and second order."""
    ordinary = [3.0, -1.0, 0.5, 2.0]
    values = np.array([[size, -size, size, -size], ordinary], dtype)
    x = ta.tensor(values, requires_grad=True, device=device)
    g = ta.tensor(np.array([[1.0, 0.5, -2.0, 0.25]] * 2, dtype), device=device)
    with way():
        y = normalize(x, 4)
        (first,) = ta.grad(y, [x], g)
        (recorded,) = ta.grad(normalize(x, 4), [x], g, create_graph=True)
        (second,) = ta.grad(recorded, [x], g)
    assert y.tolist()[0] == pytest.approx([1, -1, 1, -1], rel=1e-3)
    np.testing.assert_allclose(y.numpy()[1], normalize(x[1:], 4).numpy()[0], rtol=1e-3)
    z = np.array([1.0, -1.0, 1.0, -1.0])
    cotangent = np.array([1.0, 0.5, -2.0, 0.25])
    expected = cotangent - z * (cotangent * z).mean()
    if normalize is ta.layer_norm:
        expected = expected - cotangent.mean()
    for found in (first, recorded):
        scaled = found.numpy().astype("float64")[0] * size
        np.testing.assert_allclose(scaled, expected, rtol=2e-2, atol=1e-3)
    assert np.isfinite(second.numpy()).all()


@pytest.mark.parametrize("way", [ta.reference, contextlib.nullcontext])
@pytest.mark.parametrize("width", [3, 65, 1234])
@pytest.mark.parametrize("value", [0.0, 1e-20, 0.003, 0.1, -7.7, 12345.678, 1e30])
def test_a_constant_row_becomes_exactly_zero(value, width, way, device):
    """It does not change the other rows."""
    x = np.random.default_rng(0).standard_normal((3, width)).astype("float32")
    with way():
        alone = ta.layer_norm(ta.tensor(x, device=device), width).numpy()
        x[1] = value
        out = ta.layer_norm(ta.tensor(x, device=device), width).numpy()
    assert (out[1] == 0).all()
    np.testing.assert_array_equal(out[::2], alone[::2])
