"""The affine map of linear layers."""

import math

from ..autograd import primitive
from ..backend import array_namespace


@primitive
def linear(x, weight, bias=None, /):
    """The affine map ``x W + b`` of the last axis of ``x``.

    Args:
        x: (..., in).
        weight: (in, out), one column per output. PyTorch stores the transpose.
        bias: (out), or None.

    Returns:
        (..., out). Leading axes are flattened, for a single matrix product.

    Raises:
        ValueError: for incompatible shapes.

    Backward. With y = x W + b for each row x, dy_j/dx_i = W_ij and dy_j/dW_ij = x_i, so that over all rows
        dx = g W^T        dW = x^T g        db = g summed over the rows
    (the engine computes the last sum, because b is broadcast over the rows).

    >>> import tinyattn as ta
    >>> ta.linear(ta.tensor([1.0, 2.0]), ta.tensor([[1.0, 0.0], [0.0, 3.0]]), ta.tensor([0.5, 0.5]))
    Tensor([1.5, 6.5])
    """
    _check_shapes(x, weight, bias)
    y = _rows(x) @ weight  # (rows, in) @ (in, out)
    if bias is not None:
        y = y + bias
    return y.reshape(x.shape[:-1] + weight.shape[1:])


@linear.vjp("x")
def linear_vjp_x(g, _out, _x, weight, _bias):
    return array_namespace(g).reshape(_rows(g) @ weight.T, _x.shape)


@linear.vjp("weight")
def linear_vjp_weight(g, _out, x, _weight, _bias):
    return _rows(x).T @ _rows(g)


@linear.vjp("bias")
def linear_vjp_bias(g, _out, _x, _weight, _bias):
    return g


def _rows(x):
    """Reshape (..., width) to (rows, width)."""
    return array_namespace(x).reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


def _check_shapes(x, weight, bias):
    if weight.ndim != 2:
        raise ValueError(
            f"linear() got a weight of shape {weight.shape}: expected two axes, (in, out)"
        )
    if x.ndim < 1 or x.shape[-1] != weight.shape[0]:
        hint = ""
        if x.ndim and x.shape[-1] == weight.shape[1]:
            hint = "; if the weight is stored as (out, in), as in PyTorch, pass weight.T"
        raise ValueError(
            f"linear() got x of shape {x.shape} and a weight of shape {weight.shape}: "
            f"expected the last axis of x to be the weight's first, in (in, out){hint}"
        )
    if bias is not None and bias.shape != weight.shape[1:]:
        raise ValueError(
            f"linear() got a bias of shape {bias.shape} with a weight of shape {weight.shape}: "
            f"expected {weight.shape[1:]}, one number per output"
        )
