"""Gradients of elementwise operations at extreme finite inputs, first and second order, in every number format.

They are compared with closed forms in extended precision, to the relative accuracy of the format, also where they are
tiny: what is computed from a rounded result is 0 there, and what multiplies 0 by an overflowed number is NaN.
"""

import math

import numpy as np
import pytest

import tinyattn as ta

POINTS = [0.0, 0.5, 1.25, 3.0, 8.0, 12.0, 16.75, 30.0, 40.0, 85.0, 90.0, 600.0, 1e4]
HUGE = {"float16": [6e4], "float32": [1e19, 1e20, 1e38], "float64": [1e20, 1e200, 1e308]}
# A few roundings; of exp(x) the error is that of x, and here x is up to 700.
TOLERANCE = {"float16": 2e-2, "float32": 2e-5, "float64": 1e-12}

real = np.longdouble
root_of_two_over_pi = np.sqrt(real(2) / np.arctan2(real(0), real(-1)))


def logistic(x):
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def of_sigmoid(x):
    s, complement = logistic(x), logistic(-x)
    return s * complement, s * complement * (complement - s)


def of_tanh(x):
    first = 4 * logistic(2 * x) * logistic(-2 * x)
    return first, -2 * np.tanh(x) * first


def of_silu(x):
    s, complement = logistic(x), logistic(-x)
    return s + x * s * complement, s * complement * (2 + x * (complement - s))


def of_tanh_gelu(x):
    u = 2 * root_of_two_over_pi * (x + real("0.044715") * x**3)
    w = 2 * root_of_two_over_pi * (1 + 3 * real("0.044715") * x**2)
    s, complement = logistic(u), logistic(-u)
    bend = 12 * root_of_two_over_pi * real("0.044715") * x
    density = s * complement * w
    return s + x * density, 2 * density + x * s * complement * ((complement - s) * w * w + bend)


def of_gelu(x):
    phi = np.array([real(math.erfc(-float(t) / math.sqrt(2))) / 2 for t in x.ravel()])
    density = np.exp(-x * x / 2) * root_of_two_over_pi / 2
    return phi.reshape(x.shape) + x * density, density * (2 - x * x)


def of_erf(x):
    first = root_of_two_over_pi * np.sqrt(real(2)) * np.exp(-x * x)
    return first, -2 * x * first


def of_power(exponent):
    def derivatives(x):
        return exponent * x ** (exponent - 1), exponent * (exponent - 1) * x ** (exponent - 2)

    return derivatives


EVERYWHERE = {
    "sigmoid": (ta.sigmoid, of_sigmoid),
    "tanh": (ta.tanh, of_tanh),
    "silu": (ta.silu, of_silu),
    "gelu, tanh": (lambda x: ta.gelu(x, approximate="tanh"), of_tanh_gelu),
    "gelu, exact": (ta.gelu, of_gelu),
    "erf": (ta.erf, of_erf),
    "exp": (ta.exp, lambda x: (np.exp(x), np.exp(x))),
    "expm1": (ta.expm1, lambda x: (np.exp(x), np.exp(x))),
    "square": (ta.square, lambda x: (2 * x, 2 + 0 * x)),
    "cube": (lambda x: x**3, of_power(3)),
    "relu": (ta.relu, lambda x: ((x > 0) * real(1), 0 * x)),
    "abs": (ta.abs, lambda x: (np.sign(x), 0 * x)),
}
ABOVE_ZERO = {
    "log": (ta.log, lambda x: (1 / x, -1 / x**2)),
    "log1p": (ta.log1p, lambda x: (1 / (1 + x), -1 / (1 + x) ** 2)),
    "sqrt": (ta.sqrt, of_power(real("0.5"))),
    "rsqrt": (ta.rsqrt, of_power(real("-0.5"))),
    "reciprocal": (lambda x: 1 / x, of_power(real(-1))),
    "power": (lambda x: x**0.5, of_power(real("0.5"))),
}


def points(dtype, signs):
    tiny = [] if -1 in signs else [1e-7, 1e-4]
    magnitudes = np.array(tiny + (POINTS if -1 in signs else POINTS[1:]) + HUGE[dtype], dtype)
    return np.unique(np.concatenate([sign * magnitudes for sign in signs]))


def gradients(operation, x, device):
    x = ta.tensor(x, requires_grad=True, device=device)
    ones = ta.ones_like(x)
    (kernel,) = ta.grad(operation(x), [x], ones)
    (first,) = ta.grad(operation(x), [x], ones, create_graph=True)
    if not first.requires_grad:
        return kernel, first, ta.zeros_like(x)
    (second,) = ta.grad(first, [x], ones, allow_unused=True)
    return kernel, first, ta.zeros_like(x) if second is None else second


def compare(found, expected, dtype, what, atol=0):
    with np.errstate(all="ignore"):
        expected = expected.astype(dtype)
    np.testing.assert_allclose(
        found.numpy(),
        expected,
        rtol=TOLERANCE[dtype],
        atol=max(atol, 4 * np.finfo(dtype).smallest_subnormal),
        err_msg=what,
    )


CASES = [pytest.param(*case, (-1, 1), id=name) for name, case in EVERYWHERE.items()] + [
    pytest.param(*case, (1,), id=name) for name, case in ABOVE_ZERO.items()
]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize(("operation", "derivatives", "signs"), CASES)
def test_the_gradient_is_the_true_one(operation, derivatives, signs, dtype, device):
    x = points(dtype, signs)
    with np.errstate(all="ignore"):
        first, second = derivatives(x.astype(real))
        with_kernel, by_rule, bend = gradients(operation, x, device)
    compare(by_rule, first, dtype, "first order, by the rule")
    compare(bend, second, dtype, "second order")
    # The kernels of gelu are accurate to a rounding of 1.
    compare(with_kernel, first, dtype, "first order", atol=2 * np.finfo(dtype).eps)


def gradient_of(operation, values, dtype, device="cpu"):
    x = ta.tensor(values, dtype=dtype, requires_grad=True, device=device)
    operation(x).sum().backward()
    return x.grad.tolist()


def test_the_values_that_are_known(device):
    known = [5.3157847e-08, 9.357623e-14, 1.2160993e-37, 8.194e-40]
    found = gradient_of(ta.sigmoid, [16.75, 30.0, 85.0, -90.0], "float32", device)
    assert found == pytest.approx(known, rel=1e-4, abs=0)
    assert gradient_of(ta.expm1, [-40.0], "float64", device) == pytest.approx(
        [4.248354255291589e-18], rel=1e-15, abs=0
    )
    assert gradient_of(ta.expm1, [-20.0], "float32", device) == pytest.approx(
        [2.0611537e-09], rel=1e-6, abs=0
    )
    assert gradient_of(ta.tanh, [12.0], "float32", device) == pytest.approx(
        [1.5101e-10], rel=1e-4, abs=0
    )


@pytest.mark.parametrize("approximate", ["tanh", "none"])
@pytest.mark.parametrize(
    ("dtype", "huge"), [("float64", 1e200), ("float32", 1e20), ("float16", 600.0)]
)
def test_the_slope_of_gelu_ends_at_0_and_1(approximate, dtype, huge, device):
    """Among numbers of other sizes, and in an array of more than one block of the kernel."""
    for count in (1, 300_000):
        values = np.tile([huge, -huge, 0.0], count)
        x = ta.tensor(values.astype(dtype), requires_grad=True, device=device)
        ta.gelu(x, approximate=approximate).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), np.tile([1.0, 0.0, 0.5], count))
        if device == "strict":
            break


def test_the_slope_of_gelu_at_infinity_by_the_rule():
    with ta.reference():
        for approximate in ("tanh", "none"):
            gelu = lambda x, kind=approximate: ta.gelu(x, approximate=kind)  # noqa: E731
            assert gradient_of(gelu, [np.inf], "float64") == [1.0]


def test_a_root_that_is_not_used_is_0_in_the_second_order_too(device):
    x = ta.tensor([0.0, 4.0], requires_grad=True, device=device)
    y = ta.sqrt(x)
    (first,) = ta.grad((y * y).sum(), [x], create_graph=True)
    y = ta.sqrt(x)
    (unused,) = ta.grad((y * ta.tensor([0.0, 1.0], device=device)).sum(), [x], create_graph=True)
    (second,) = ta.grad(unused.sum(), [x])
    assert first.tolist() == [0.0, 1.0] and second.tolist() == [0.0, -1 / 32]


@pytest.mark.parametrize("as_tensor", [False, True])
def test_a_power_of_zero_has_no_slope_in_its_exponent(as_tensor, device):
    """For exponents below 0, where the power is infinite, as for those above."""
    y = ta.tensor([-1.0, -0.5, 0.0, 2.0], requires_grad=True, device=device)
    zero = ta.zeros_like(y) if as_tensor else 0.0
    (first,) = ta.grad((zero**y).sum(), [y], create_graph=True)
    assert first.tolist() == [0.0] * 4
    if first.requires_grad:
        (second,) = ta.grad(first.sum(), [y])
        assert second.tolist() == [0.0] * 4
