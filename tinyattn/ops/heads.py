"""Split vectors into the heads of multi-head attention, and join them."""

from ..autograd import primitive


@primitive(view=True)
def split_heads(x, /, heads):
    """Split the last axis into heads: (..., length, dim) -> (..., heads, length, head_dim).

    Raises:
        ValueError: if ``heads`` does not divide the last axis, or there are fewer than two axes.

    Backward. The elements are only moved; ``join_heads`` moves their cotangents back.

    Source: A. Vaswani et al., "Attention Is All You Need" (2017), section 3.2.2.

    >>> import tinyattn as ta
    >>> ta.split_heads(ta.tensor([[1.0, 2.0, 3.0, 4.0]]), 2).tolist()
    [[[1.0, 2.0]], [[3.0, 4.0]]]
    """
    if x.ndim < 2 or heads < 1 or x.shape[-1] % heads:
        raise ValueError(
            f"cannot split shape {tuple(x.shape)} into {heads} heads: expected (..., length, dim) with a dim that the "
            "number of heads divides"
        )
    x = x.reshape((*x.shape[:-1], heads, x.shape[-1] // heads))
    return x.swapaxes(-3, -2)


@split_heads.vjp
def split_heads_vjp(g, _out, _x, *, heads):
    return join_heads.rule(g)


@primitive(view=True)
def join_heads(x, /):
    """Concatenate the heads' vectors of each token: (..., heads, length, head_dim) -> (..., length, dim).

    Raises:
        ValueError: for fewer than three axes.

    Backward. The inverse of ``split_heads``, so the cotangent is split into heads.

    >>> import tinyattn as ta
    >>> ta.join_heads(ta.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])).tolist()
    [[1.0, 2.0, 3.0, 4.0]]
    """
    if x.ndim < 3:
        raise ValueError(
            f"cannot join heads of shape {tuple(x.shape)}: expected (..., heads, length, head_dim)"
        )
    x = x.swapaxes(-3, -2)
    return x.reshape((*x.shape[:-2], x.shape[-2] * x.shape[-1]))


@join_heads.vjp
def join_heads_vjp(g, _out, _x):
    return split_heads.rule(g, heads=_x.shape[-3])
