"""Operations that move elements without changing them: the backward moves the cotangents back."""

from ..autograd import primitive
from ..backend import array_namespace


@primitive(view=True)
def reshape(x, /, shape):
    """The elements of ``x`` in the same order under another shape; one length may be -1.

    Backward. Nothing moves, so the cotangent takes the old shape.

    >>> import tinyattn as ta
    >>> ta.reshape(ta.tensor([1.0, 2.0, 3.0, 4.0]), (2, 2))
    Tensor([[1., 2.],
            [3., 4.]])
    """
    return array_namespace(x).reshape(x, shape)


@reshape.vjp
def reshape_vjp(g, _out, x, *, shape):
    return array_namespace(g).reshape(g, x.shape)


@primitive(view=True)
def broadcast_to(x, /, shape):
    """``x`` repeated along new axes and along its axes of length 1 until it has ``shape``.

    Backward. An element that was copied gets the sum of its copies' cotangents. The engine does this for every
    operation that broadcasts, so here the cotangent passes unchanged.

    >>> import tinyattn as ta
    >>> ta.broadcast_to(ta.tensor([1.0, 2.0]), (2, 2)).tolist()
    [[1.0, 2.0], [1.0, 2.0]]
    """
    return array_namespace(x).broadcast_to(x, shape)


@broadcast_to.vjp
def broadcast_to_vjp(g, _out, _x, *, shape):
    return g
