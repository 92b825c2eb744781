"""Exponentials, logarithms and roots.

All are elementwise: the Jacobian is diagonal, and a vector-Jacobian product is the cotangent times the derivative.
Backward saves only the output ``y`` if the derivative can be expressed in terms of it.
"""

from ..autograd import primitive
from ..backend import array_namespace


@primitive
def exp(x, /):
    """The exponential ``e**x``, elementwise.

    Backward. The exponential is its own derivative: dy/dx = y.

    >>> import tinyattn as ta
    >>> ta.exp(ta.tensor([0.0, 1.0]))
    Tensor([1.      , 2.71828...])
    """
    return array_namespace(x).exp(x)


@exp.vjp
def exp_vjp(g, y, _x):
    return g * y


@primitive
def log(x, /):
    """The natural logarithm, elementwise: -inf at 0, NaN below.

    Backward. dy/dx = 1/x. At 0 this is infinite, and an element there that the loss does not use gets 0/0 = NaN:
    mask it before the logarithm, as in ``log(where(x > 0, x, 1))``, not after.

    >>> import tinyattn as ta
    >>> ta.log(ta.tensor([1.0, 2.0]))
    Tensor([0.       , 0.69314...])
    """
    return array_namespace(x).log(x)


@log.vjp
def log_vjp(g, _out, x):
    return g / x


@primitive
def log1p(x, /):
    """The logarithm of ``1 + x``, accurate also for x so small that 1 + x is rounded to 1.

    Backward. dy/dx = 1 / (1 + x).

    >>> import tinyattn as ta
    >>> ta.log1p(ta.tensor([0.0, 1.0]))
    Tensor([0.       , 0.69314...])
    """
    return array_namespace(x).log1p(x)


@log1p.vjp
def log1p_vjp(g, _out, x):
    return g / (1 + x)


@primitive
def expm1(x, /):
    """The exponential minus one, ``e**x - 1``, accurate also for x so small that e**x is rounded to 1.

    Backward. dy/dx = e^x, computed from x: y + 1 loses all digits when y is near -1.

    >>> import tinyattn as ta
    >>> ta.expm1(ta.tensor([0.0, 1.0]))
    Tensor([0.       , 1.71828...])
    """
    return array_namespace(x).expm1(x)


@expm1.vjp
def expm1_vjp(g, _y, x):
    return g * array_namespace(x).exp(x)


@primitive
def sqrt(x, /):
    """The square root, elementwise: NaN below 0.

    Backward. From y^2 = x follows 2y dy = dx, so dy/dx = 1/(2y): infinite at 0. If the cotangent is 0 there, too, the
    gradient is 0, not 0/0 = NaN, so that an unused root or the square of a zero norm does no harm.

    >>> import tinyattn as ta
    >>> x = ta.tensor([0.0, 4.0], requires_grad=True)
    >>> y = ta.sqrt(x)
    >>> (y * y).sum().backward()
    >>> x.grad
    Tensor([0., 1.])
    """
    return array_namespace(x).sqrt(x)


@sqrt.vjp
def sqrt_vjp(g, y, _x):
    xp = array_namespace(y)
    unused = (y == 0) & (g == 0)
    return xp.where(unused, 0, g / xp.where(unused, 1, 2 * y))


@primitive
def rsqrt(x, /):
    """The reciprocal square root, ``1 / sqrt(x)``, elementwise: inf at 0, NaN below.

    Backward. d(x^(-1/2))/dx = -x^(-3/2) / 2 = -y^3 / 2.

    >>> import tinyattn as ta
    >>> ta.rsqrt(ta.tensor([1.0, 4.0]))
    Tensor([1. , 0.5])
    """
    return 1 / array_namespace(x).sqrt(x)


@rsqrt.vjp
def rsqrt_vjp(g, y, _x):
    return g * (-0.5 * y * y * y)
