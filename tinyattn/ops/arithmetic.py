"""Elementwise arithmetic: each element of the output depends on one element of each input.

The Jacobian of such an operation is diagonal, so each vector-Jacobian product is the cotangent times a derivative,
element by element. The engine sums the cotangent of an input that was broadcast.
"""

import math

from ..autograd import primitive
from ..backend import array_namespace


@primitive
def add(x, y, /):
    """The sum ``x + y``, elementwise with broadcasting.

    Backward. d(x + y)/dx = 1 and d(x + y)/dy = 1: the cotangent passes to both unchanged.

    >>> import tinyattn as ta
    >>> ta.add(ta.tensor([1.0, 2.0]), 1.0)
    Tensor([2., 3.])
    """
    return x + y


@add.vjp("x")
def add_vjp_x(g, _out, _x, _y):
    return g


@add.vjp("y")
def add_vjp_y(g, _out, _x, _y):
    return g


@primitive
def sub(x, y, /):
    """The difference ``x - y``, elementwise with broadcasting.

    Backward. d(x - y)/dx = 1 and d(x - y)/dy = -1.

    >>> import tinyattn as ta
    >>> ta.sub(1.0, ta.tensor([1.0, 2.0]))
    Tensor([ 0., -1.])
    """
    return x - y


@sub.vjp("x")
def sub_vjp_x(g, _out, _x, _y):
    return g


@sub.vjp("y")
def sub_vjp_y(g, _out, _x, _y):
    return -g


@primitive
def mul(x, y, /):
    """The product ``x * y``, elementwise with broadcasting.

    Backward. d(xy)/dx = y and d(xy)/dy = x.

    >>> import tinyattn as ta
    >>> ta.mul(ta.tensor([1.0, 2.0]), 3.0)
    Tensor([3., 6.])
    """
    return x * y


@mul.vjp("x")
def mul_vjp_x(g, _out, _x, y):
    return g * y


@mul.vjp("y")
def mul_vjp_y(g, _out, x, _y):
    return g * x


@primitive
def div(x, y, /):
    """The quotient ``x / y``, elementwise with broadcasting.

    Backward. d(x/y)/dx = 1/y and d(x/y)/dy = -x / y^2 = -(x/y) / y. Where y is 0, an element of x that the loss does
    not use has the gradient 0/0 = NaN; other elements are not affected.

    >>> import tinyattn as ta
    >>> ta.div(ta.tensor([1.0, 2.0]), 2.0)
    Tensor([0.5, 1. ])
    """
    return x / y


@div.vjp("x")
def div_vjp_x(g, _out, _x, y):
    return g / y


@div.vjp("y")
def div_vjp_y(g, out, _x, y):
    return -g * out / y


@primitive
def power(x, y, /):
    """The power ``x**y``, elementwise with broadcasting; also as ``pow`` and ``**``.

    Backward. d(x^y)/dx = y x^(y-1), defined as 0 for x = y = 0, so that 0**0 has a finite gradient.
    d(x^y)/dy = x^y log x, which is real only for x > 0. At x = 0 it is defined as 0, the limit for y > 0, also for
    y < 0, where x^y is infinite; for x < 0 it is NaN. For a Python number as exponent, no logarithm is computed.

    >>> import tinyattn as ta
    >>> ta.power(ta.tensor([1.0, 2.0, 3.0]), 2)
    Tensor([1., 4., 9.])
    """
    if isinstance(y, (int, float)) and y == 3:
        return x * x * x  # NumPy's power is about thirty times slower
    return x**y


@power.vjp("x")
def power_vjp_x(g, _out, x, y):
    if isinstance(y, (int, float)):
        return g * y * x ** (y - 1) if y != 0 else g * 0
    xp = array_namespace(g, x, y)
    # 0 * 0^(-1) would be NaN. In the dtype of g, so that y - 1 is not rounded to a narrower dtype of y.
    exponent = xp.where((x == 0) & (y == 0), xp.ones_like(g), y)
    return g * y * x ** (exponent - 1)


@power.vjp("y")
def power_vjp_y(g, out, x, _y):
    xp = array_namespace(g)
    if isinstance(x, (int, float)):
        return g * out * (math.log(x) if x > 0 else math.nan) if x != 0 else xp.zeros_like(g)
    at_zero = x == 0  # out may be infinite there, and its product with log 0 NaN
    # In the dtype of g, which may be wider than that of x.
    base = xp.where(at_zero, xp.ones_like(g), x)
    return g * xp.where(at_zero, 0, out) * xp.log(base)


@primitive
def neg(x, /):
    """The negative ``-x``.

    Backward. d(-x)/dx = -1.

    >>> import tinyattn as ta
    >>> ta.neg(ta.tensor([1.0, -2.0]))
    Tensor([-1.,  2.])
    """
    return -x


@neg.vjp
def neg_vjp(g, _out, _x):
    return -g


@primitive
def absolute(x, /):
    """The absolute value ``|x|``; also as ``abs``.

    Backward. d|x|/dx = sign x. At 0 there is no derivative; the subgradient 0 is used.

    >>> import tinyattn as ta
    >>> ta.abs(ta.tensor([-1.0, 0.0, 2.0]))
    Tensor([1., 0., 2.])
    """
    return array_namespace(x).abs(x)


@absolute.vjp
def absolute_vjp(g, _out, x):
    return g * sign(x)


def sign(x):
    """The sign -1, 0 or 1 of each element of ``x``, without gradient.

    >>> import numpy as np
    >>> sign(np.array([-2.0, 0.0, 3.0]))
    array([-1.,  0.,  1.])
    """
    array = getattr(x, "_data", x)
    return array_namespace(array).sign(array)


@primitive
def square(x, /):
    """The square ``x * x``.

    Backward. d(x^2)/dx = 2x.

    >>> import tinyattn as ta
    >>> ta.square(ta.tensor([-1.0, 3.0]))
    Tensor([1., 9.])
    """
    return x * x


@square.vjp
def square_vjp(g, _out, x):
    return g * 2 * x
