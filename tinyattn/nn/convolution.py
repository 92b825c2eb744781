"""Causal convolution along a sequence."""

import math

from ..autograd import Tensor
from ..backend import backend_of
from ..ops import concatenate, linear
from .initialization import uniform
from .module import Module
from .parameter import Parameter


class CausalConvolution(Module):
    """A one-dimensional convolution in which an output depends only on the current and earlier tokens.

        y_t = sum_j x_{t - (kernel_size - 1 - j) dilation} W_j + b,        with x = 0 before the first token.

    The tokens of each output are concatenated along the features, so that the sum is one matrix product.

    Args:
        in_channels: length of a token's vector.
        out_channels: length of an output's vector.
        kernel_size: number of tokens that an output depends on, including the current one.
        dilation: distance between these tokens.
        bias: whether to add b.

    Attributes:
        weight: W_0, W_1, ... stacked vertically, (kernel_size * in_channels, out_channels); the last one applies to
            the current token.
        bias: (out_channels,), or None.

    Source: A. van den Oord et al., "WaveNet" (2016), section 2.1.

    >>> import tinyattn as ta
    >>> CausalConvolution(4, 8, kernel_size=3)(ta.ones((2, 5, 4))).shape
    (2, 5, 8)
    """

    def __init__(self, in_channels, out_channels, kernel_size, dilation=1, bias=True):
        if kernel_size < 1 or dilation < 1:
            raise ValueError(
                f"kernel_size and dilation must be at least 1, got {kernel_size} and {dilation}"
            )
        self.kernel_size = kernel_size
        self.dilation = dilation
        bound = 1 / math.sqrt(kernel_size * in_channels)
        self.weight = Parameter(uniform((kernel_size * in_channels, out_channels), bound))
        self.bias = Parameter(uniform((out_channels,), bound)) if bias else None

    def forward(self, x):
        """(..., length, in_channels) to (..., length, out_channels)."""
        return self.forward_with_state(x, None)[0]

    def forward_with_state(self, x, before):
        """The output, and the state to pass as ``before`` with the next tokens.

        Args:
            before: the last (kernel_size - 1) dilation tokens before ``x``; None if ``x`` starts the sequence.
        """
        reach = (self.kernel_size - 1) * self.dilation
        length = x.shape[-2]
        if before is None:
            shape = (*x.shape[:-2], reach, x.shape[-1])
            before = Tensor._wrap(backend_of(x._data).zeros(shape, x.dtype))
        x = concatenate([before, x], axis=-2)  # (..., reach + length, in_channels)
        seen = [x[..., start : start + length, :] for start in range(0, reach + 1, self.dilation)]
        seen = concatenate(seen, axis=-1)  # (..., length, kernel_size * in_channels)
        return linear(seen, self.weight, self.bias), x[..., length:, :]

    def extra_repr(self):
        in_channels = self.weight.shape[0] // self.kernel_size
        return f"{in_channels}, {self.weight.shape[1]}, kernel_size={self.kernel_size}, dilation={self.dilation}"
