"""The heads of multi-head attention, side by side in a token's vector or each by itself."""

from ..autograd import primitive


@primitive(view=True)
def split_heads(x, /, heads):
    """The last axis cut into equal parts, one for each head: (..., length, dim) -> (..., heads, length, head_dim).

    Raises:
        ValueError: if ``heads`` does not divide the last axis, or there are fewer than two axes.

    Backward. Nothing is computed, elements change their places only; the cotangent goes back to the places they came
    from, which is ``join_heads``.

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
    """The heads' vectors of each token side by side: (..., heads, length, head_dim) -> (..., length, dim).

    Raises:
        ValueError: for fewer than three axes.

    Backward. The inverse of ``split_heads``, so that the cotangent is split in its turn.

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
