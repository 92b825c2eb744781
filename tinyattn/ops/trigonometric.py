"""Trigonometric functions and the hyperbolic tangent, elementwise."""

from ..autograd import primitive
from ..backend import array_namespace
from .activations import sigmoid


@primitive
def sin(x, /):
    """The sine of ``x`` in radians, elementwise.

    Backward. dy/dx = cos x.

    >>> import tinyattn as ta
    >>> ta.sin(ta.tensor([0.0, 1.0]))
    Tensor([0.       , 0.84147...])
    """
    return array_namespace(x).sin(x)


@sin.vjp
def sin_vjp(g, _out, x):
    return g * array_namespace(x).cos(x)


@primitive
def cos(x, /):
    """The cosine of ``x`` in radians, elementwise.

    Backward. dy/dx = -sin x.

    >>> import tinyattn as ta
    >>> ta.cos(ta.tensor([0.0, 1.0]))
    Tensor([1.      , 0.5403...])
    """
    return array_namespace(x).cos(x)


@cos.vjp
def cos_vjp(g, _out, x):
    return -g * array_namespace(x).sin(x)


@primitive
def tanh(x, /):
    """The hyperbolic tangent, elementwise.

    Backward. With y = s/c, s = sinh x, c = cosh x, s' = c and c' = s,
        dy/dx = (c c - s s) / c^2 = 1 - y^2.
    This loses all digits when y is rounded to 1. It is computed as (1 + y) (1 - y) with y = 2 sigmoid(2x) - 1:
        dy/dx = 2 sigmoid(2x) 2 sigmoid(-2x).

    >>> import tinyattn as ta
    >>> ta.tanh(ta.tensor([0.0, 1.0]))
    Tensor([0.       , 0.76159...])
    """
    return array_namespace(x).tanh(x)


@tanh.vjp
def tanh_vjp(g, _y, x):
    return g * (4 * sigmoid.rule(2 * x) * sigmoid.rule(-2 * x))
