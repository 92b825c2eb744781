"""Rotary position embedding."""

import numpy as np
import pytest

import tinyattn as ta
from tests.gradient import check_gradient


def rotated(x, positions, device):
    cosine, sine = ta.rotary_tables(positions, x.shape[-1], dtype="float64", device=device)
    return ta.rotary(ta.tensor(x, device=device), cosine, sine).numpy()


def test_each_pair_is_rotated_like_a_complex_number(device, random):
    x = random.standard_normal((2, 3, 5, 6))
    pairs = x[..., :3] + 1j * x[..., 3:]
    angles = np.arange(5)[:, None] * 10000.0 ** (-np.arange(3) / 3)
    turned = pairs * np.exp(1j * angles)
    expected = np.concatenate([turned.real, turned.imag], axis=-1)
    np.testing.assert_allclose(rotated(x, 5, device), expected, rtol=1e-12)


def test_scores_depend_on_the_difference_of_positions_only(device, random):
    q, k = random.standard_normal((2, 1, 8))
    scores = [
        (rotated(q, np.array([i]), device) @ rotated(k, np.array([j]), device).T).item()
        for i, j in ((3, 1), (103, 101))
    ]
    assert scores[0] == pytest.approx(scores[1], rel=1e-10)
    unshifted = (q @ k.T).item()
    assert abs(scores[0] - unshifted) > 1e-3


def test_position_zero_is_the_identity_and_norms_are_preserved(device, random):
    x = random.standard_normal((4, 6))
    y = rotated(x, 4, device)
    np.testing.assert_array_equal(y[0], x[0])
    np.testing.assert_allclose((y * y).sum(-1), (x * x).sum(-1), rtol=1e-12)


def test_gradients_agree_with_differences_to_second_order(device, random):
    x = random.standard_normal((2, 3, 4))
    cosine, sine = random.standard_normal((2, 3, 2))
    check_gradient(ta.rotary, x, cosine, sine, device=device)


def test_the_tables_are_float32_from_angles_in_float64(device):
    cosine, sine = ta.rotary_tables(np.array([100003.0]), 2, device=device)
    assert cosine.dtype == sine.dtype == "float32"
    assert cosine.device == device
    np.testing.assert_allclose(cosine.numpy(), np.cos([[100003.0]]), rtol=1e-6)
    np.testing.assert_allclose(sine.numpy(), np.sin([[100003.0]]), rtol=1e-6)


def test_positions_may_differ_between_the_sequences_of_a_batch(device, random):
    x = random.standard_normal((2, 3, 4))
    positions = np.array([[0, 0, 1], [0, 1, 2]])
    both = rotated(x, positions, device)
    for row in (0, 1):
        np.testing.assert_array_equal(both[row], rotated(x[row], positions[row], device))


def test_incompatible_shapes_are_an_error(device):
    cosine, sine = ta.rotary_tables(3, 4, device=device)
    with pytest.raises(ValueError, match="even head_dim"):
        ta.rotary(ta.tensor(np.ones((3, 5)), device=device), cosine, sine)
    with pytest.raises(ValueError, match=r"cosine of shape \(3, 2\).*\(4, 2\)"):
        ta.rotary(ta.tensor(np.ones((4, 4)), device=device), cosine, sine)
    with pytest.raises(ValueError, match="head_dim=3"):
        ta.rotary_tables(3, 3)


def test_a_number_of_positions_may_be_numpys():
    assert ta.rotary_tables(np.int64(5), 4)[0].shape == (5, 2)
