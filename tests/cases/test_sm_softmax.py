"""Hard cases SM: softmax of masked, infinite and huge scores is exact, also in float16.

A row of -inf has the probabilities 0 (SM-01), and +inf takes all of the probability (SM-04).
"""

import warnings

import numpy as np
import pytest

import tinyattn as ta

INF = np.inf
KINDS = pytest.mark.parametrize("kind", ["auto", "dense"])


@pytest.fixture(autouse=True)
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_SM_01_a_row_without_choices_has_probability_zero(leaf, constant, equals):
    x = leaf([[-INF, -INF], [0, 0]])
    y = ta.softmax(x)
    equals(y, [[0, 0], [0.5, 0.5]])
    y.backward(constant([[1, 2], [3, 5]]))
    equals(x.grad, [[0, 0], [-0.5, 0.5]])


@KINDS
def test_SM_01_a_query_without_keys_gets_zero_and_leaks_no_nan(leaf, equals, device, kind):
    q, k, v = leaf(np.zeros((2, 1))), leaf(np.zeros((3, 1))), leaf([[1, 2], [3, 4], [5, 6]])
    mask = ta.tensor([[False, False, False], [True, True, False]], device=device)
    out = ta.scaled_dot_product_attention(q, k, v, mask=mask, kind=kind)
    equals(out, [[0, 0], [2, 3]])
    out.sum().backward()
    equals(v.grad, [[0.5, 0.5], [0.5, 0.5], [0, 0]])
    equals(q.grad, np.zeros((2, 1)))
    equals(k.grad, np.zeros((3, 1)))


def test_SM_02_a_masked_score_has_probability_and_gradient_zero(leaf, equals, device):
    a = leaf([1, 1, 1, 1, 1])
    mask = ta.tensor([True, False, True, True, True], device=device)
    for masked in (ta.where(mask, a, -INF), a + ta.where(mask, ta.zeros_like(a), -INF)):
        s = ta.softmax(masked)
        equals(s, [0.25, 0, 0.25, 0.25, 0.25])
        (gradient,) = ta.grad(s[2], a)
        equals(gradient, [-0.0625, 0, 0.1875, -0.0625, -0.0625])


@pytest.mark.parametrize(
    ("scores", "expected"), [([1, 1, INF], [0, 0, 1]), ([INF, INF, 0], [0.5, 0.5, 0])]
)
def test_SM_04_an_infinite_score_takes_all_of_the_probability(
    leaf, constant, equals, scores, expected
):
    x = leaf(scores)
    y = ta.softmax(x)
    equals(y, expected)
    y.backward(constant([1, 2, 4]))
    assert np.isfinite(x.grad.numpy()).all()


@pytest.mark.parametrize(
    ("scores", "expected"),
    [([1e308, 0], [1, 0]), ([-1e308, 1e308], [0, 1]), ([-249.9, 378.1], [0, 1])],
)
def test_SM_05_huge_scores_overflow_nowhere_and_warn_of_nothing(leaf, scores, expected):
    y = ta.softmax(leaf(scores))
    np.testing.assert_allclose(y.numpy(), expected, rtol=0, atol=1e-200)


def test_SM_07_the_logarithm_of_a_probability_that_underflows_is_finite(leaf, equals):
    equals(ta.log_softmax(leaf([0, -1000])), [0, -1000])


def test_SM_07_a_cross_entropy_far_from_zero_is_exact(leaf, device):
    x = leaf([-431, 279, 427])
    loss = ta.cross_entropy(x, ta.tensor(0, device=device))
    loss.backward()
    assert loss.item() == 858
    np.testing.assert_allclose(x.grad.numpy(), [-1, 5.3e-65, 1], rtol=0.02)


def test_SM_08_a_masked_score_in_log_softmax_is_minus_infinity_with_gradient_zero(leaf, equals):
    x = leaf([0, 1, -INF])
    y = ta.log_softmax(x)
    equals(y, [-1.31326169, -0.31326169, -INF], decimals=8)
    y[0].backward()
    equals(x.grad, [0.73105858, -0.73105858, 0], decimals=8)


@KINDS
def test_SM_10_a_score_that_float16_holds_only_after_its_scale_does_not_overflow(
    leaf, device, kind
):
    q, v = leaf(np.full((1, 64), 40), "float16"), leaf([[1, 0], [0, 1]], "float16")
    unequal = leaf(np.array([[40.0], [38.0]]) * np.ones(64), "float16")
    assert ta.scaled_dot_product_attention(q, unequal, v, kind=kind).tolist() == [[1, 0]]
    k = leaf(np.full((2, 64), 40), "float16")
    out = ta.scaled_dot_product_attention(q, k, v, kind=kind)
    assert out.dtype == "float16" and out.tolist() == [[0.5, 0.5]]
    out.backward(ta.tensor(np.array([[1, 0]], "float16"), device=device))
    assert all(np.isfinite(x.grad.numpy()).all() for x in (q, k, v))


@KINDS
def test_SM_11_masks_select_and_never_add(leaf, device, kind):
    q, k = leaf([[-16], [-16]], "float16"), leaf([[1], [1]], "float16")
    v = leaf([[2], [4]], "float16")
    mask = ta.tensor([[False, False], [True, False]], device=device)
    out = ta.scaled_dot_product_attention(q, k, v, mask=mask, causal=True, kind=kind)
    assert out.tolist() == [[0], [2]]
    out.sum().backward()
    assert v.grad.tolist() == [[1], [0]]
