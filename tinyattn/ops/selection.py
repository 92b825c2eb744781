"""Selection: each element of the output is an element of one of the inputs.

The selected element gets the cotangent, the others 0. Cotangents are selected with ``where``, not multiplied by 0 or 1:
0 * inf would be NaN.
"""

from ..autograd import primitive
from ..backend import array_namespace


@primitive
def where(condition, x, y, /):
    """``x`` where ``condition`` holds, ``y`` elsewhere, with broadcasting.

    Args:
        condition: a boolean array or tensor; it has no gradient.
        x, y: tensors, arrays or numbers.

    Backward. The cotangent goes to x where the condition holds, and to y elsewhere. This does not protect operations
    before it: in ``where(x > 0, log(x), 0)`` the backward of the logarithm gives 0/0 = NaN at x = 0.

    >>> import tinyattn as ta
    >>> x = ta.tensor([1.0, -2.0])
    >>> ta.where(x > 0, x, 0.0)
    Tensor([1., 0.])
    """
    return array_namespace(condition, x, y).where(condition, x, y)


@where.vjp("x")
def where_vjp_x(g, _out, condition, _x, _y):
    return array_namespace(g).where(condition, g, 0)


@where.vjp("y")
def where_vjp_y(g, _out, condition, _x, _y):
    return array_namespace(g).where(condition, 0, g)


@primitive
def masked_fill(x, mask, value, /):
    """``x`` with ``value`` where ``mask`` is True.

    Args:
        mask: a boolean array or tensor that broadcasts against x.
        value: a number, or a tensor with one element.

    Backward. The cotangent goes to the value where the mask is True (the engine sums it), and to x elsewhere.

    >>> import tinyattn as ta
    >>> x = ta.tensor([1.0, 2.0])
    >>> ta.masked_fill(x, x > 1, -float("inf"))
    Tensor([  1., -inf])
    """
    return array_namespace(x, mask).where(mask, value, x)


@masked_fill.vjp("x")
def masked_fill_vjp_x(g, _out, _x, mask, _value):
    return array_namespace(g).where(mask, 0, g)


@masked_fill.vjp("value")
def masked_fill_vjp_value(g, _out, _x, mask, _value):
    return array_namespace(g).where(mask, g, 0)


@primitive
def maximum(x, y, /):
    """The larger of ``x`` and ``y``, elementwise with broadcasting; NaN where either is NaN.

    Backward. The cotangent goes to the larger. For ties, any convex combination is a subgradient; each gets half.

    >>> import tinyattn as ta
    >>> ta.maximum(ta.tensor([-1.0, 2.0]), 0.0)
    Tensor([0., 2.])
    """
    return array_namespace(x, y).maximum(x, y)


@maximum.vjp("x")
def maximum_vjp_x(g, _out, x, y):
    return _cotangent(g, x == y, x < y)


@maximum.vjp("y")
def maximum_vjp_y(g, _out, x, y):
    return _cotangent(g, x == y, x > y)


@primitive
def minimum(x, y, /):
    """The smaller of ``x`` and ``y``, elementwise with broadcasting; NaN where either is NaN.

    Backward. As for ``maximum``: the cotangent goes to the smaller; for ties, each gets half.

    >>> import tinyattn as ta
    >>> ta.minimum(ta.tensor([-1.0, 2.0]), 0.0)
    Tensor([-1.,  0.])
    """
    return array_namespace(x, y).minimum(x, y)


@minimum.vjp("x")
def minimum_vjp_x(g, _out, x, y):
    return _cotangent(g, x == y, x > y)


@minimum.vjp("y")
def minimum_vjp_y(g, _out, x, y):
    return _cotangent(g, x == y, x < y)


def _cotangent(g, tie, loses):
    """``g / 2`` for a tie, 0 where the other input was selected. A NaN neither ties nor loses: it gets ``g``."""
    xp = array_namespace(g)
    return xp.where(tie, 0.5 * g, xp.where(loses, 0, g))


@primitive
def clip(x, min=None, max=None, /):
    """Clip ``x`` to the interval [``min``, ``max``]; NaN stays NaN.

    Args:
        min, max: numbers, or tensors or arrays that broadcast against x; either may be None. If min is larger than max,
            the result is max.

    Raises:
        ValueError: if both bounds are None.

    Backward. Inside the interval and at its bounds the cotangent goes to x, outside to the bound.

    >>> import tinyattn as ta
    >>> ta.clip(ta.tensor([-2.0, 0.5, 3.0]), 0, 1)
    Tensor([0. , 0.5, 1. ])
    """
    if min is None and max is None:
        raise ValueError("clip needs a bound: give min, max, or both")
    xp = array_namespace(x, min, max)
    if min is not None:
        x = xp.maximum(x, min)
    return x if max is None else xp.minimum(x, max)


@clip.vjp("x")
def clip_vjp_x(g, _out, x, min, max):
    outside = x < min if max is None else x > max
    if min is not None and max is not None:
        outside = outside | (x < min)
    return array_namespace(g).where(outside, 0, g)


@clip.vjp("min")
def clip_vjp_min(g, _out, x, min, max):
    raised = x < min if max is None else (x < min) & (min <= max)
    return array_namespace(g).where(raised, g, 0)


@clip.vjp("max")
def clip_vjp_max(g, _out, x, min, max):
    lowered = x > max if min is None else (x > max) | (min > max)
    return array_namespace(g).where(lowered, g, 0)
