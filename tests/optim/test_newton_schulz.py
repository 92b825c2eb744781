"""Newton-Schulz iterations keep singular vectors, and bring singular values near 1."""

import numpy as np
import pytest

from tinyattn.optim.newton_schulz import minimax_polynomial, newton_schulz, polynomials_of


@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (3, 4, 8)])
def test_newton_schulz_keeps_singular_vectors_and_lifts_singular_values(shape, random):
    matrices = random.normal(size=shape)
    found = newton_schulz(matrices)
    u, s, vt = np.linalg.svd(matrices, full_matrices=False)
    left = np.swapaxes(u, -1, -2) @ found @ np.swapaxes(vt, -1, -2)
    values = np.diagonal(left, axis1=-2, axis2=-1)
    np.testing.assert_allclose(left, values[..., None] * np.eye(shape[-2]), atol=1e-10)
    large = s / np.sqrt((s**2).sum(axis=-1, keepdims=True)) > 0.01
    assert np.all((values[large] > 0.6) & (values[large] < 1.3))


@pytest.mark.parametrize("shape", [(4, 12), (3, 4, 8), (5, 5)])
def test_products_of_the_short_side_give_the_same(shape, random):
    matrices = random.normal(size=shape)
    normed = matrices / np.sqrt((matrices**2).sum(axis=(-2, -1), keepdims=True))
    expected = normed
    for _ in range(5):
        gram = expected @ np.swapaxes(expected, -1, -2)
        expected = 3.4445 * expected + (-4.7750 * gram + 2.0315 * gram @ gram) @ expected
    np.testing.assert_allclose(newton_schulz(matrices), expected, atol=1e-12)
    np.testing.assert_allclose(newton_schulz(matrices, steps=0), normed, atol=1e-15)


@pytest.mark.parametrize("columns", [32, 128])
def test_float32_is_enough_for_a_momentum_of_almost_one_direction(columns, random):
    matrices = random.normal(size=(32, 1)) @ random.normal(size=(1, columns))
    matrices = (matrices + 1e-2 * random.normal(size=(32, columns))).astype(np.float32)
    found = newton_schulz(matrices)
    assert found.dtype == np.float32
    exact = newton_schulz(matrices.astype(np.float64))
    np.testing.assert_allclose(found, exact, atol=2e-3)
    assert np.abs(exact).max() > 0.1


def test_newton_schulz_does_not_change_its_input(random):
    matrices = random.normal(size=(2, 3, 4))
    before = matrices.copy()
    newton_schulz(matrices)
    assert np.array_equal(matrices, before)


def composed(kind, steps, values):
    for a, b, c in polynomials_of(kind, steps):
        values = a * values + b * values**3 + c * values**5
    return values


@pytest.mark.parametrize(
    ("kind", "steps", "smallest", "low", "high"),
    [
        ("constant", 5, 0.003, 0.68, 1.21),
        ("minimax", 3, 0.01, 0.73, 1.27),
        ("minimax", 4, 0.0034, 0.82, 1.18),
    ],
)
def test_singular_values_come_near_one(kind, steps, smallest, low, high):
    values = composed(kind, steps, np.linspace(smallest, 1, 100_001))
    assert low < values.min() < low + 0.02 and high - 0.02 < values.max() < high


@pytest.mark.parametrize(("low", "high"), [(0.001, 1.0), (0.2, 1.0), (0.7, 1.3), (0.99, 1.01)])
def test_the_error_of_a_minimax_polynomial_is_equal_at_four_points(low, high):
    """By Chebyshev's theorem no other odd polynomial of degree 5 has a smaller maximum."""
    (a, b, c), error = minimax_polynomial(low, high)
    values = np.linspace(low, high, 1_000_001)
    errors = 1 - (a * values + b * values**3 + c * values**5)
    assert np.abs(errors).max() == pytest.approx(error, rel=1e-6, abs=1e-12)
    at_the_bound = np.flatnonzero(np.abs(errors) > error * (1 - 1e-6))
    signs = np.sign(errors[at_the_bound])
    assert 1 + np.count_nonzero(np.diff(signs)) == 4


def test_many_iterations_converge():
    values = composed("minimax", 9, np.linspace(1e-3, 1, 1001))
    np.testing.assert_allclose(values, 1, atol=5e-3)


@pytest.mark.parametrize(
    ("dtype", "scales"), [("float64", (1e-300, 1e300)), ("float32", (1e-36, 1e37))]
)
def test_the_size_of_a_matrix_has_no_effect(dtype, scales, random):
    matrix = random.normal(size=(3, 4)).astype(dtype)
    expected = newton_schulz(matrix)
    for scale in scales:
        both = np.stack([matrix, matrix * np.array(scale, dtype)])
        np.testing.assert_allclose(newton_schulz(both), [expected] * 2, atol=1e-6)
