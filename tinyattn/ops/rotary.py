"""Rotary position embedding: rotate pairs of features by an angle proportional to the position."""

import numpy as np

from ..autograd import Tensor, primitive
from ..backend import array_namespace, get_backend


@primitive
def rotary(x, cosine, sine, /):
    """Rotate each pair (x_i, x_{i + d/2}) of the last axis by the angle of its position.

    Scores of rotated queries and keys depend only on the difference of their positions.

    Args:
        x: (..., length, head_dim), head_dim even.
        cosine, sine: (length, head_dim / 2), from ``rotary_tables``; leading axes broadcast against x.

    Raises:
        ValueError: for an odd head_dim or incompatible tables.

    With the halves x = (x1, x2) and, element by element, c = cosine and s = sine,
        y = (x1 c - x2 s, x1 s + x2 c).
    The paper pairs features (2i, 2i + 1) instead; the two differ by a fixed permutation of the features.

    Backward. The transpose of a rotation is the rotation by the negative angle, with sine -s: dx = rotary(g, c, -s).
    From the formula, dc = g1 x1 + g2 x2 and ds = g2 x1 - g1 x2.

    Source: J. Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding" (2021), eq. 34.

    >>> import tinyattn as ta
    >>> quarter_turn = ta.rotary(ta.tensor([[1.0, 0.0]]), ta.tensor([[0.0]]), ta.tensor([[1.0]]))
    >>> quarter_turn
    Tensor([[0., 1.]])
    """
    half = _half_dim(x, cosine, sine)
    x1, x2 = x[..., :half], x[..., half:]
    return array_namespace(x).concatenate(
        [x1 * cosine - x2 * sine, x1 * sine + x2 * cosine], axis=-1
    )


@rotary.vjp("x")
def rotary_vjp_x(g, _out, _x, cosine, sine):
    return rotary.rule(g, cosine, -sine)


@rotary.vjp("cosine")
def rotary_vjp_cosine(g, _out, x, cosine, _sine):
    half = cosine.shape[-1]
    return g[..., :half] * x[..., :half] + g[..., half:] * x[..., half:]


@rotary.vjp("sine")
def rotary_vjp_sine(g, _out, x, _cosine, sine):
    half = sine.shape[-1]
    return g[..., half:] * x[..., :half] - g[..., :half] * x[..., half:]


def rotary_tables(positions, head_dim, base=10000.0, dtype="float32", device=None):
    """Compute the cosines and sines for ``rotary``: two tensors of shape (..., length, head_dim / 2).

    Pair i rotates by ``position * base**(-2i / head_dim)`` radians: wavelengths range from 2 pi for the first pair to
    about 2 pi ``base`` for the last. Angles are computed in float64 on the host.

    Args:
        positions: the position of each token, (..., length); or the number of tokens, for positions 0, 1, 2, ...
        head_dim: features of a head, even.

    >>> cosine, sine = rotary_tables(3, head_dim=2)
    >>> cosine.numpy().round(4).tolist() == np.cos([[0.0], [1.0], [2.0]]).astype("f").round(4).tolist()
    True
    """
    if head_dim % 2:
        raise ValueError(f"rotary_tables() got head_dim={head_dim}: expected an even number")
    if isinstance(positions, (int, np.integer)):
        positions = np.arange(positions)
    elif isinstance(positions, Tensor):
        device = positions.device if device is None else device
        positions = positions.numpy()
    frequencies = float(base) ** (-np.arange(0, head_dim, 2) / head_dim)  # (head_dim / 2)
    angles = np.asarray(positions, np.float64)[..., None] * frequencies
    backend = get_backend(device)
    return tuple(Tensor._wrap(backend.asarray(f(angles).astype(dtype))) for f in (np.cos, np.sin))


def _half_dim(x, cosine, sine):
    if x.ndim < 2 or x.shape[-1] % 2:
        raise ValueError(
            f"rotary() got x of shape {x.shape}: expected (..., length, head_dim) with an even head_dim"
        )
    expected = (x.shape[-2], x.shape[-1] // 2)
    for name, table in (("cosine", cosine), ("sine", sine)):
        if table.shape[-2:] != expected:
            raise ValueError(
                f"rotary() got {name} of shape {table.shape} with x of shape {x.shape}: "
                f"expected (..., length, head_dim / 2) with the last two {expected}"
            )
    return expected[1]
