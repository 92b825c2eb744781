"""What is wrong with a backward pass other than a value: each finding by its name, and none where all is well."""

import numpy as np
import pytest

from tinyattn.checker import GradcheckError, GradcheckWarning, gradcheck, gradient_report


def square(x):
    return x * x


X = np.array([[0.5, -1.5, 2.0], [0.1, 3.0, -0.7]])


def adds_up():
    kept = np.zeros(X.shape)

    def backward(g, x):
        kept[...] += 2 * g * x
        return kept

    return backward


def adds_up_in_a_copy():
    kept = np.zeros(X.shape)

    def backward(g, x):
        kept[...] += 2 * g * x
        return kept.copy()

    return backward


def keeps_the_last_input():
    """As a layer does that stores its input in the forward pass and reads it in the backward."""
    last = {}

    def forward(x):
        last["x"] = x.copy()
        return x * x

    return forward, lambda g, x: 2 * g * last["x"]


def is_random():
    random = np.random.default_rng(0)
    return lambda g, x: 2 * g * x * (1 + 1e-3 * random.standard_normal())


def changes_the_cotangent(g, x):
    g *= 2 * x
    return g.copy()


def changes_the_input(g, x):
    gradient = 2 * g * x
    x += 1
    return gradient


def reads_an_undefined_buffer(g, x):
    buffer = np.empty_like(x)
    buffer[:, :2] = (2 * g * x)[:, :2]
    return np.where(np.isnan(buffer), 0, (2 * g * x))


def assumes_contiguous_memory(g, x):
    values = np.lib.stride_tricks.as_strided(x, x.shape, (3 * x.itemsize, x.itemsize))
    return 2 * g * values


def is_float32(g, x):
    return (2 * g * x).astype(np.float32)


@pytest.mark.parametrize(
    "backward, kind",
    [
        (adds_up(), "adds into a gradient"),
        (adds_up_in_a_copy(), "adds into a gradient"),
        (keeps_the_last_input(), "keeps state"),
        (is_random(), "not deterministic"),
        (changes_the_cotangent, "changes its cotangent"),
        (changes_the_input, "changes its inputs"),
        (reads_an_undefined_buffer, "undefined buffer"),
        (assumes_contiguous_memory, "depends on strides"),
        (is_float32, "wrong dtype"),
    ],
)
def test_each_is_found_by_its_name(backward, kind):
    pair = backward if isinstance(backward, tuple) else (square, backward)
    report = gradient_report(pair, [X])
    assert kind in [finding.kind for finding in report.findings]
    assert report.verdict == "wrong"
    with pytest.raises(GradcheckError, match=kind):
        gradcheck(pair, [X])


def test_an_alias_of_the_cotangent_is_a_warning():
    pair = (lambda x: x + 1, lambda g, x: g)
    with pytest.warns(GradcheckWarning, match="aliases its cotangent"):
        assert gradcheck(pair, [X])


def test_a_gradient_of_another_shape_is_refused():
    with pytest.raises(GradcheckError, match=r"has the shape \(2,\), expected \(2, 3\)"):
        gradcheck((square, lambda g, x: (2 * g * x).sum(axis=1)), [X])


@pytest.mark.parametrize("mode", ["full", "fast"])
def test_a_right_backward_pass_has_no_finding(mode):
    report = gradient_report((square, lambda g, x: 2 * g * x), [X], mode=mode)
    assert report.findings == [] and report.verdict == "right"


def test_a_backward_pass_that_is_to_add_starts_from_numbers_that_must_survive():
    """Issue 1307 of Enzyme.jl: from a shadow of zeros, a rule that overwrites it passes."""

    def adds(g, x, gradients):
        gradients[0] += 2 * g * x

    def overwrites(g, x, gradients):
        gradients[0][...] = 2 * g * x

    assert gradcheck((square, adds), [X])
    with pytest.raises(GradcheckError, match="overwrites a gradient"):
        gradcheck((square, overwrites), [X])
