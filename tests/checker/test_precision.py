"""Low precision: a gradient is compared with that of a float64 copy, within an error budget for rounding."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.checker import GradcheckError, gradcheck, gradient_report

DTYPES = ["float32", "float16"]


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_backward(g, x):
    y = softmax(x)
    return y * (g - (g * y).sum(axis=-1, keepdims=True))


PAIRS = {
    "sin": (np.sin, lambda g, x: g * np.cos(x)),
    "exp": (np.exp, lambda g, x: g * np.exp(x)),
    "softmax": (softmax, softmax_backward),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PAIRS)
def test_a_right_gradient_in_low_precision_passes_whatever_its_point(name, dtype, random):
    """Issue 7742 of JAX: with a step of 1e-4, below the precision of float16, right gradients fail."""
    for seed in range(10):
        x = random.standard_normal((3, 5)).astype(dtype)
        report = gradient_report(PAIRS[name], [x], seed=seed)
        assert report.verdict == "right", report.error()
        assert 0 < report.arguments[0].precision.ulp < report.arguments[0].precision.expected < 50


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["layer_norm", "softmax", "gelu", "matmul", "logsumexp"])
def test_the_operations_of_this_library_are_as_good_as_low_precision_allows(name, dtype, random):
    x = ta.tensor(random.standard_normal((4, 6)).astype(dtype))
    if name == "layer_norm":
        assert ta.gradcheck(lambda x: ta.layer_norm(x, (6,)), x)
    elif name == "matmul":
        assert ta.gradcheck(ta.matmul, (x, ta.transpose(x).detach()))
    else:
        assert ta.gradcheck(getattr(ta, name), x)


def test_the_error_is_stated_in_units_in_the_last_place(random):
    report = gradient_report(PAIRS["softmax"], [random.standard_normal((3, 5)).astype("float16")])
    precision = report.arguments[0].precision
    assert str(precision).startswith("float16 gradient: ") and " ulp, expected up to " in str(
        precision
    )
    assert precision.low == pytest.approx(precision.exact, rel=1e-1, abs=1e-2)


def test_a_float32_gradient_that_goes_through_float16_is_less_accurate_than_float32_allows(random):
    def through_half(g, x):
        dtype = np.float16 if x.dtype == np.float32 else x.dtype
        return softmax_backward(g, x.astype(dtype)).astype(x.dtype)

    x = random.standard_normal((3, 5))
    assert gradcheck((softmax, through_half), [x])
    with pytest.raises(GradcheckError, match="less accurate than float32 allows") as caught:
        gradcheck((softmax, through_half), [x.astype(np.float32)])
    assert caught.value.report.arguments[0].precision.ulp > 1000


def test_an_overflow_in_low_precision_is_no_right_gradient():
    pair = (lambda x: x**2, lambda g, x: 2 * (g * x**2) / x)
    assert gradcheck(pair, [np.array([300.0])])
    with pytest.raises(GradcheckError), np.errstate(over="ignore"):
        gradcheck(pair, [np.array([300.0], np.float16)])


def test_a_wrong_rule_is_wrong_in_low_precision_too(random):
    x = random.standard_normal(5).astype(np.float32)
    with pytest.raises(GradcheckError, match=r"the gradient of inputs\[0\] is wrong"):
        gradcheck((np.sin, lambda g, x: 1.001 * g * np.cos(x)), [x])


def test_a_gradient_of_another_dtype_than_its_input_is_found(random):
    x = random.standard_normal(5).astype(np.float32)
    with pytest.raises(GradcheckError, match="is float64, expected its dtype, float32"):
        gradcheck((np.sin, lambda g, x: (g * np.cos(x)).astype(np.float64)), [x])


def test_bfloat16_is_checked_where_ml_dtypes_provides_it(random):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = random.standard_normal((3, 5)).astype(ml_dtypes.bfloat16)
    report = gradient_report(PAIRS["sin"], [x])
    assert report.verdict == "right" and report.arguments[0].precision.dtype == "bfloat16"


def test_a_precision_without_an_error_budget_is_refused_by_name():
    if np.dtype(np.longdouble).itemsize == 8:
        pytest.skip("long double is float64 here")
    with pytest.raises(TypeError, match="expected one of float64, float32, float16, bfloat16"):
        gradcheck(PAIRS["sin"], [np.ones(2, np.longdouble)])
