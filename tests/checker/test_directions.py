"""The fast mode: few evaluations for any number of elements, and the wrong element by bisection."""

import numpy as np
import pytest

from tinyattn.checker import GradcheckError, gradcheck, gradient_report

MILLION = 1_000_000


def cosine(g, x):
    return g * np.cos(x)


def wrong_at(errors, of=cosine):
    """A backward pass with errors added at places, in units of the gradient's root mean square."""

    def backward(g, x):
        gradient = of(g, x)
        rms = np.sqrt(np.mean(gradient**2))
        for place, error in errors.items():
            gradient[place] += error * rms
        return gradient

    return backward


def check(pair, x, **settings):
    return gradient_report(pair, [x], mode="fast", **settings)


@pytest.mark.parametrize("size", [1, 10, 100_000])
def test_a_right_gradient_takes_at_most_40_evaluations(size, random):
    for pair in [(np.sin, cosine), (lambda x: np.maximum(x, 0), lambda g, x: g * (x > 0))]:
        report = check(pair, random.standard_normal(size))
        assert report.verdict == "right" and report.evaluations <= 40


def test_a_network_with_many_kinks_is_right(random):
    def forward(x, w, v):
        return np.maximum(x @ w, 0) @ v

    def backward(g, x, w, v):
        hidden = x @ w
        scores = g @ v.T * (hidden > 0)
        return scores @ w.T, x.T @ scores, np.maximum(hidden, 0).T @ g

    for seed in range(3):
        w, v = random.standard_normal((2, 50, 50)) / 7
        inputs = [random.standard_normal((64, 50)), w, v]
        report = gradient_report((forward, backward), inputs, mode="fast", seed=seed)
        assert report.verdict == "right" and report.evaluations <= 40


def test_one_element_of_a_million_wrong_by_a_thousandth_of_the_rms_is_found(random):
    x = random.standard_normal(MILLION)
    report = check((np.sin, wrong_at({543_210: 1e-3})), x)
    (argument,) = report.arguments
    assert argument.failures == 1 and argument.worst[0].index == (543_210,)
    assert report.evaluations <= 40 + 2 * 20 + 60  # the check, bisection, the ladder of the element


def test_errors_that_cancel_in_the_sum_are_found(random):
    x = random.standard_normal((100, 50))
    report = check((np.sin, wrong_at({(3, 4): 1e-2, (97, 21): -1e-2})), x)
    assert {element.index for element in report.arguments[0].worst} == {(3, 4), (97, 21)}


def test_a_gradient_that_is_wrong_throughout_is_said_to_be(random):
    with pytest.raises(GradcheckError, match="at least half of 1000 elements") as caught:
        gradcheck(
            (np.sin, lambda g, x: 1.001 * cosine(g, x)), [random.standard_normal(1000)], mode="fast"
        )
    assert len(caught.value.report.arguments[0].worst) == 5


def test_six_wrong_elements_of_many_are_more_than_five(random):
    errors = {place: 0.1 for place in (7, 100, 431, 656, 800, 999)}
    with pytest.raises(GradcheckError, match="more than 5 of 1000 elements"):
        gradcheck((np.sin, wrong_at(errors)), [random.standard_normal(1000)], mode="fast")


def test_a_wrong_gradient_next_to_a_huge_one_is_found(random):
    """The first argument contributes a hundred million times more to the slope."""
    inputs = [random.standard_normal(50), random.standard_normal(50)]

    def backward(g, x, y, factor=1.0):
        return 1e8 * g * np.cos(x), g * np.cos(y) * factor

    pair = (lambda x, y: 1e8 * np.sin(x) + np.sin(y), backward)
    wrong = (pair[0], lambda g, x, y: backward(g, x, y, factor=1.01))
    assert gradient_report(pair, inputs, mode="fast").verdict != "wrong"
    assert gradient_report(wrong, inputs, mode="fast").verdict != "right"


def renorm(x, largest=1.0):
    norms = np.sqrt(np.sum(x * x, axis=1, keepdims=True))
    return x * np.where(norms > largest, largest / norms, 1.0)


def renorm_backward(g, x, largest=1.0, swapped=False):
    norms = np.sqrt(np.sum(x * x, axis=1, keepdims=True))
    over = (norms <= largest) if swapped else (norms > largest)
    scaled = largest * (g / norms - x * np.sum(g * x, axis=1, keepdims=True) / norms**3)
    return np.where(over, scaled, g)


@pytest.mark.parametrize("mode", ["full", "fast"])
def test_the_wrong_renorm_that_passed_the_fast_mode_of_pytorch_does_not_pass(mode, random):
    """PyTorch pull request 59615: rows above and below the largest norm were mixed up in the backward pass."""
    x = random.standard_normal((10, 5)) * random.uniform(0.1, 2, (10, 1))
    assert gradcheck((renorm, renorm_backward), [x], mode=mode)
    wrong = (renorm, lambda g, x: renorm_backward(g, x, swapped=True))
    with pytest.raises(GradcheckError) as caught:
        gradcheck(wrong, [x], mode=mode)
    assert caught.value.index is not None


def test_directional_is_another_name(random):
    report = gradient_report((np.sin, cosine), [random.standard_normal(4)], mode="directional")
    assert report.mode == "fast"


def test_a_change_that_is_lost_in_the_rounding_of_an_output_is_not_called_wrong(random):
    """A saturated softmax: its largest output is 1, and changes by less than its last place."""
    x = 1000 * random.standard_normal((3, 4))

    def softmax(x):
        exponentials = np.exp(x - np.max(x, axis=-1, keepdims=True))
        return exponentials / np.sum(exponentials, axis=-1, keepdims=True)

    def backward(g, x):
        y = softmax(x)
        return y * (g - np.sum(g * y, axis=-1, keepdims=True))

    for seed in range(20):
        assert check((softmax, backward), x, seed=seed).verdict != "wrong"


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_sums_of_squares_neither_overflow_nor_underflow(scale, random):
    x = random.standard_normal(100)
    factors = np.where(np.arange(100) == 7, 1.001, 1.0)

    def sine(x):
        return scale * np.sin(x)

    assert check((sine, lambda g, x: scale * cosine(g, x)), x).verdict == "right"
    assert check((sine, lambda g, x: scale * cosine(g, x) * factors), x).verdict == "wrong"
