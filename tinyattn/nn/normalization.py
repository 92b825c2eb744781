"""Normalization layers: layer normalization and RMS normalization."""

from numbers import Integral

import numpy as np

from ..ops import layer_norm, rms_norm
from .module import Module
from .parameter import Parameter


class LayerNorm(Module):
    """Subtract the mean of each vector and divide by its standard deviation, then scale by ``weight`` and add ``bias``.

    Args:
        normalized_shape: the length of the last axis, or the lengths of the last axes, to normalize over.
        eps: added to the variance, inside the root.
        weight, bias: whether to learn a gain and an offset; they start at 1 and 0.

    Source: J. L. Ba, J. R. Kiros and G. E. Hinton, "Layer Normalization" (2016), equation 4.

    >>> import tinyattn as ta
    >>> ta.nn.LayerNorm(2)(ta.tensor([[1.0, 3.0]])).numpy().round(3)
    array([[-1.,  1.]], dtype=float32)
    """

    def __init__(self, normalized_shape, eps=1e-5, weight=True, bias=True):
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.weight = Parameter(np.ones(self.normalized_shape, np.float32)) if weight else None
        self.bias = Parameter(np.zeros(self.normalized_shape, np.float32)) if bias else None

    def forward(self, x):
        return layer_norm(x, self.normalized_shape, self.weight, self.bias, eps=self.eps)

    def extra_repr(self):
        return f"{', '.join(map(str, self.normalized_shape))}, eps={self.eps:g}"


class RMSNorm(Module):
    """Divide each vector by its root mean square, then scale by ``weight``.

    Args:
        normalized_shape: the length of the last axis, or the lengths of the last axes, to normalize over.
        eps: added to the mean square, inside the root; None means the machine epsilon of the dtype.
        weight: whether to learn a gain; it starts at 1.

    Source: B. Zhang and R. Sennrich, "Root Mean Square Layer Normalization" (2019), equation 4.

    >>> import tinyattn as ta
    >>> ta.nn.RMSNorm(2)(ta.tensor([[3.0, 4.0]])).numpy().round(3)
    array([[0.849, 1.131]], dtype=float32)
    """

    def __init__(self, normalized_shape, eps=None, weight=True):
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.weight = Parameter(np.ones(self.normalized_shape, np.float32)) if weight else None

    def forward(self, x):
        return rms_norm(x, self.normalized_shape, self.weight, eps=self.eps)

    def extra_repr(self):
        eps = "" if self.eps is None else f", eps={self.eps:g}"
        return f"{', '.join(map(str, self.normalized_shape))}{eps}"


def make_norm(kind, dim, bias=True):
    """The normalization layer of a configuration, ``"layer_norm"`` or ``"rms_norm"``, for vectors of length ``dim``."""
    if kind == "layer_norm":
        return LayerNorm(dim, bias=bias)
    if kind == "rms_norm":
        return RMSNorm(dim, eps=1e-5)
    raise ValueError(f'norm_kind must be "layer_norm" or "rms_norm", got {kind!r}')


def _as_shape(lengths):
    return (int(lengths),) if isinstance(lengths, Integral) else tuple(lengths)
