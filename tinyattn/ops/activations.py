"""Activation functions: elementwise, so that backward multiplies the cotangent by a derivative per element."""

import math

from ..autograd import primitive
from ..backend import array_namespace
from .conversion import in_dtype_of, wide_floats


@primitive
def relu(x, /):
    """The positive part ``max(x, 0)``; NaN stays NaN.

    Backward. The derivative is 1 above 0 and 0 below; at 0 the subgradient 0 is used. At NaN the cotangent passes, so
    that a NaN is not hidden.

    Source: V. Nair and G. E. Hinton, "Rectified Linear Units Improve Restricted Boltzmann Machines" (2010).

    >>> import tinyattn as ta
    >>> ta.relu(ta.tensor([-1.0, 0.0, 2.0]))
    Tensor([0., 0., 2.])
    """
    return array_namespace(x).maximum(x, 0)


@relu.vjp
def relu_vjp(g, y, _x):
    return array_namespace(g).where(y == 0, 0, g)


@primitive
def relu_squared(x, /):
    """The square of the positive part, ``max(x, 0)^2``; NaN stays NaN.

    Backward. y' = 2 max(x, 0), which is continuous: 0 for all x up to 0.

    Source: D. So et al., "Primer: Searching for Efficient Transformers for Language Modeling" (2021), section 4.

    >>> import tinyattn as ta
    >>> ta.relu_squared(ta.tensor([-1.0, 0.0, 3.0]))
    Tensor([0., 0., 9.])
    """
    positive = array_namespace(x).maximum(x, 0)
    return positive * positive


@relu_squared.vjp
def relu_squared_vjp(g, _out, x):
    return g * 2 * array_namespace(x).maximum(x, 0)


@primitive
def sigmoid(x, /):
    """The logistic function ``1 / (1 + exp(-x))``, which maps the real line to (0, 1).

    With e = exp(-|x|), which cannot overflow, it is 1 / (1 + e) for x >= 0 and e / (1 + e) for x < 0, with full
    relative precision for tiny results.

    Backward. y' = exp(-x) / (1 + exp(-x))^2 = y (1 - y). The second factor is computed as sigmoid(-x), since 1 - y
    loses all digits when y is rounded to 1.

    >>> import tinyattn as ta
    >>> ta.sigmoid(ta.tensor([-1000.0, 0.0, 1000.0]))
    Tensor([0. , 0.5, 1. ])
    """
    xp = array_namespace(x)
    e = xp.exp(-xp.abs(x))
    return xp.where(x < 0, e, 1) / (1 + e)


@sigmoid.vjp
def sigmoid_vjp(g, y, x):
    return g * y * sigmoid.rule(-x)


@primitive
def silu(x, /):
    """The sigmoid-weighted linear unit ``x s`` with ``s = sigmoid(x)``, also called swish.

    Backward. With s' = s (1 - s), the product rule gives y' = s + x s (1 - s) = s (1 + x (1 - s)). The factor 1 - s is
    computed as sigmoid(-x).

    Source: S. Elfwing, E. Uchibe and K. Doya, "Sigmoid-Weighted Linear Units for Neural Network Function Approximation
    in Reinforcement Learning" (2017), eq. 3 and 4.

    >>> import tinyattn as ta
    >>> ta.silu(ta.tensor([0.0, 1.0])).numpy().round(4)
    array([0.    , 0.7311], dtype=float32)
    """
    return x * sigmoid.rule(x)


@silu.vjp
def silu_vjp(g, _out, x):
    s = sigmoid.rule(x)
    return g * (s * (1 + x * sigmoid.rule(-x)))


@primitive
def gelu(x, /, approximate="none"):
    """The Gaussian error linear unit ``x Phi(x)``, where Phi is the normal distribution's cumulative function.

    Args:
        approximate: ``"none"`` for the exact Phi(x) = erfc(-x / sqrt 2) / 2; ``"tanh"`` for the approximation
            Phi(x) = (1 + tanh u) / 2 = sigmoid(2u)  with  u = sqrt(2/pi) (x + 0.044715 x^3),
            which differs by less than 5e-4 and is used by GPT-2.

    Raises:
        ValueError: for another ``approximate``.

    Backward. The product rule: y' = Phi(x) + x Phi'(x). Exactly, Phi' is the normal density
    exp(-x^2/2) / sqrt(2 pi). For the approximation, with s = sigmoid(2u), it is 2 s (1 - s) u', where
    1 - s = sigmoid(-2u) and u' = sqrt(2/pi) (1 + 3 * 0.044715 x^2). For |x| >= 40 the density is 0 in every dtype, and
    x is clipped there: powers of huge numbers overflow, and 0 times infinity would be NaN.

    Source: D. Hendrycks and K. Gimpel, "Gaussian Error Linear Units" (2016), section 2.

    >>> import tinyattn as ta
    >>> ta.gelu(ta.tensor([-1.0, 0.0, 1.0])).numpy().round(4)
    array([-0.1587,  0.    ,  0.8413], dtype=float32)
    """
    return x * _normal_cumulative(x, approximate)


@gelu.vjp
def gelu_vjp(g, _out, x, *, approximate="none"):
    xp = array_namespace(x)
    x = xp.minimum(xp.maximum(x, -40), 40)
    cumulative = _normal_cumulative(x, approximate)
    if approximate == "tanh":
        slope = 2 * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)
        density = cumulative * _normal_cumulative(-x, approximate) * slope
    else:
        density = xp.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return g * (cumulative + x * density)


def _normal_cumulative(x, approximate):
    """The cumulative distribution function of the standard normal distribution, exact or approximated by tanh."""
    if approximate == "tanh":
        return sigmoid.rule(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))
    if approximate == "none":
        return 0.5 * erfc.rule(x * -math.sqrt(0.5))
    raise ValueError(f'gelu() got approximate={approximate!r}: expected "none" or "tanh"')


@primitive
def erf(x, /):
    """The error function ``2 / sqrt(pi) * integral of exp(-t^2) from 0 to x``.

    It has no closed form, and NumPy does not provide it. For |x| <= 0.46875 it is computed as x times a rational
    function of x^2, beyond as sign(x) (1 - erfc(|x|)). The error is below 1e-15 in float64.

    Backward. The integrand itself: y' = 2 / sqrt(pi) exp(-x^2).

    Source: W. J. Cody, "Rational Chebyshev Approximations for the Error Function" (1969), table II.

    >>> import tinyattn as ta
    >>> ta.erf(ta.tensor([0.0, 1.0, 10.0])).numpy().round(4)
    array([0.    , 0.8427, 1.    ], dtype=float32)
    """
    xp = array_namespace(x)
    original, x = x, wide_floats(x)  # the polynomials exceed float16's range
    beyond = xp.sign(x) * (1 - _erfc_of_positive(xp.abs(x)))
    return in_dtype_of(original, xp.where(xp.abs(x) <= 0.46875, _erf_near_0(x), beyond))


@erf.vjp
def erf_vjp(g, _out, x):
    return g * (2 / math.sqrt(math.pi) * array_namespace(x).exp(-x * x))


@primitive
def erfc(x, /):
    """The complementary error function, ``1 - erf(x)``, with full relative precision for tiny results.

    For positive x it is exp(-x^2) times a rational function of x, from 4 on of 1/x^2; erfc(-x) = 2 - erfc(x).

    Backward. The negative of erf's: y' = -2 / sqrt(pi) exp(-x^2).

    Source: W. J. Cody, "Rational Chebyshev Approximations for the Error Function" (1969), tables II to IV.

    >>> import tinyattn as ta
    >>> print(f"{ta.erfc(ta.tensor(9.0)):.5e}")
    4.13703e-37
    """
    xp = array_namespace(x)
    original, x = x, wide_floats(x)
    beyond = _erfc_of_positive(xp.abs(x))
    beyond = xp.where(x < 0, 2 - beyond, beyond)
    return in_dtype_of(original, xp.where(xp.abs(x) <= 0.46875, 1 - _erf_near_0(x), beyond))


@erfc.vjp
def erfc_vjp(g, _out, x):
    return g * (-2 / math.sqrt(math.pi) * array_namespace(x).exp(-x * x))


def _erf_near_0(x):
    square = array_namespace(x).minimum(x * x, 0.25)  # results for larger x are not used
    return x * _polynomial(_ERF_NUMERATOR, square) / _polynomial(_ERF_DENOMINATOR, square)


def _erfc_of_positive(x):
    xp = array_namespace(x)
    a = xp.minimum(x, 4)
    middle = _polynomial(_TAIL_NUMERATOR, a) / _polynomial(_TAIL_DENOMINATOR, a)
    a = xp.maximum(x, 4)
    t = 1 / (a * a)
    far = t * _polynomial(_FAR_NUMERATOR, t) / _polynomial(_FAR_DENOMINATOR, t)
    far = (1 / math.sqrt(math.pi) - far) / a
    return xp.exp(-x * x) * xp.where(x <= 4, middle, far)


def _polynomial(coefficients, x):
    """Evaluate a polynomial at ``x`` by Horner's method; coefficients from the highest power to the lowest."""
    value = coefficients[0] * x + coefficients[1]
    for coefficient in coefficients[2:]:
        value = value * x + coefficient
    return value


_ERF_NUMERATOR = (
    1.85777706184603153e-1,
    3.16112374387056560e0,
    1.13864154151050156e2,
    3.77485237685302021e2,
    3.20937758913846947e3,
)
_ERF_DENOMINATOR = (
    1.0,
    2.36012909523441209e1,
    2.44024637934444173e2,
    1.28261652607737228e3,
    2.84423683343917062e3,
)
_TAIL_NUMERATOR = (
    2.15311535474403846e-8,
    5.64188496988670089e-1,
    8.88314979438837594e0,
    6.61191906371416295e1,
    2.98635138197400131e2,
    8.81952221241769090e2,
    1.71204761263407058e3,
    2.05107837782607147e3,
    1.23033935479799725e3,
)
_TAIL_DENOMINATOR = (
    1.0,
    1.57449261107098347e1,
    1.17693950891312499e2,
    5.37181101862009858e2,
    1.62138957456669019e3,
    3.29079923573345963e3,
    4.36261909014324716e3,
    3.43936767414372164e3,
    1.23033935480374942e3,
)
_FAR_NUMERATOR = (
    1.63153871373020978e-2,
    3.05326634961232344e-1,
    3.60344899949804439e-1,
    1.25781726111229246e-1,
    1.60837851487422766e-2,
    6.58749161529837803e-4,
)
_FAR_DENOMINATOR = (
    1.0,
    2.56852019228982242e0,
    1.87295284992346725e0,
    5.27905102951428412e-1,
    6.05183413124413191e-2,
    2.33520497626869185e-3,
)
