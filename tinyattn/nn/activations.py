"""Activation functions as layers: one class each, as in PyTorch, or by name."""

from ..ops import gelu, relu, relu_squared, sigmoid, silu, tanh
from .module import Module

ACTIVATIONS = {
    "gelu": lambda x: gelu(x, approximate="none"),
    "gelu_tanh": lambda x: gelu(x, approximate="tanh"),
    "relu": relu,
    "relu_squared": relu_squared,
    "silu": silu,
    "tanh": tanh,
    "sigmoid": sigmoid,
}


class Activation(Module):
    """A nonlinearity by name: gelu (exact), gelu_tanh (its approximation), relu, relu_squared, silu, tanh, sigmoid.

    Source: relu_squared: D. So et al., "Primer" (2021); for the others see the operations.

    >>> import tinyattn as ta
    >>> Activation("relu_squared")(ta.tensor([-1.0, 3.0])).tolist()
    [0.0, 9.0]
    """

    def __init__(self, name):
        if name not in ACTIVATIONS:
            raise ValueError(
                f"unknown activation {name!r}: expected one of {', '.join(ACTIVATIONS)}"
            )
        self.name = name

    def forward(self, x):
        return ACTIVATIONS[self.name](x)

    def extra_repr(self):
        return repr(self.name)


class ReLU(Module):
    """The positive part of every element, ``max(x, 0)``: see ``relu``.

    >>> import tinyattn as ta
    >>> ta.nn.ReLU()(ta.tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    def forward(self, x):
        return relu(x)


class Sigmoid(Module):
    """The logistic function of every element, ``1 / (1 + exp(-x))``: see ``sigmoid``.

    >>> import tinyattn as ta
    >>> ta.nn.Sigmoid()(ta.tensor([0.0, 1000.0])).tolist()
    [0.5, 1.0]
    """

    def forward(self, x):
        return sigmoid(x)


class SiLU(Module):
    """Every element times its sigmoid, also called swish: see ``silu``.

    >>> import tinyattn as ta
    >>> ta.nn.SiLU()(ta.tensor([0.0, 100.0])).tolist()
    [0.0, 100.0]
    """

    def forward(self, x):
        return silu(x)


class Tanh(Module):
    """The hyperbolic tangent of every element: see ``tanh``.

    >>> import tinyattn as ta
    >>> ta.nn.Tanh()(ta.tensor([0.0, 100.0])).tolist()
    [0.0, 1.0]
    """

    def forward(self, x):
        return tanh(x)


class GELU(Module):
    """The Gaussian error linear unit of every element: see ``gelu``.

    Args:
        approximate: ``"none"`` for the exact function, ``"tanh"`` for the approximation of GPT-2.

    >>> import tinyattn as ta
    >>> ta.nn.GELU()(ta.tensor([0.0, 100.0])).tolist()
    [0.0, 100.0]
    """

    def __init__(self, approximate="none"):
        if approximate not in ("none", "tanh"):
            raise ValueError(f'approximate must be "none" or "tanh", got {approximate!r}')
        self.approximate = approximate

    def forward(self, x):
        return gelu(x, approximate=self.approximate)

    def extra_repr(self):
        return "" if self.approximate == "none" else f"approximate={self.approximate!r}"
