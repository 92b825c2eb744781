"""The linear (affine) layer."""

import math

from ..ops import linear
from .initialization import uniform
from .module import Module
from .parameter import Parameter


class Linear(Module):
    """The affine map x W + b of the last axis.

    Args:
        in_features: length of the last axis of the input.
        out_features: length of the last axis of the output.
        bias: whether to add b.
        parts: number of matrices concatenated in W, such as 3 for the projections to queries, keys and values. It does
            not affect this layer; Muon orthogonalizes each part separately.

    Attributes:
        weight: W, (in_features, out_features). PyTorch stores the transpose.
        bias: b, (out_features,), or None.

    Both are initialized uniformly on +-1/sqrt(in_features), as in PyTorch.

    >>> import tinyattn as ta
    >>> ta.nn.Linear(3, 2)(ta.tensor([[1.0, 2.0, 3.0]])).shape
    (1, 2)
    """

    def __init__(self, in_features, out_features, bias=True, parts=1):
        if in_features < 0 or out_features < 0 or parts < 1:
            raise ValueError(
                f"in_features and out_features must be at least 0 and parts at least 1, got {in_features}, "
                f"{out_features} and {parts}"
            )
        if out_features % parts:
            raise ValueError(f"out_features {out_features} cannot be divided into {parts} parts")
        self.in_features = in_features
        self.out_features = out_features
        self.parts = parts
        bound = 1 / math.sqrt(in_features) if in_features else 0.0
        self.weight = Parameter(uniform((in_features, out_features), bound))
        self.bias = Parameter(uniform((out_features,), bound)) if bias else None

    def forward(self, x):
        return linear(x, self.weight, self.bias)

    def extra_repr(self):
        no_bias = "" if self.bias is not None else ", bias=False"
        parts = f", parts={self.parts}" if self.parts != 1 else ""
        return f"{self.in_features}, {self.out_features}{no_bias}{parts}"
