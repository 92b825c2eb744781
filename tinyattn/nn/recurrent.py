"""Recurrent layers: the gated recurrent unit."""

import math

from ..autograd import Tensor
from ..backend import backend_of
from ..ops import sigmoid, stack, tanh
from .initialization import reinitialize, uniform
from .linear import Linear
from .module import Module


class GRU(Module):
    """A gated recurrent unit over a sequence.

    With x the token and h the previous state,
        r = sigmoid(x W_r + h U_r)           reset gate,
        z = sigmoid(x W_z + h U_z)           update gate,
        n = tanh(x W_n + r * (h U_n))        candidate state,
        h = (1 - z) * n + z * h              new state.

    Args:
        input_dim: length of a token's vector.
        hidden_dim: length of the state.
        bias: whether the six affine maps have biases.

    Attributes:
        input: W_r, W_z and W_n as one ``Linear``, (input_dim, 3 hidden_dim).
        hidden: U_r, U_z and U_n as one ``Linear``, (hidden_dim, 3 hidden_dim).

    Both are initialized uniformly on +-1/sqrt(hidden_dim), as in PyTorch.

    Source: K. Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder" (2014), equations 5 to 8, with r
    applied after the product with U_n, as PyTorch and cuDNN do.

    >>> import tinyattn as ta
    >>> GRU(4, 8)(ta.ones((3, 5, 4))).shape
    (3, 5, 8)
    """

    def __init__(self, input_dim, hidden_dim, bias=True):
        self.hidden_dim = hidden_dim
        self.input = Linear(input_dim, 3 * hidden_dim, bias=bias, parts=3)
        self.hidden = Linear(hidden_dim, 3 * hidden_dim, bias=bias, parts=3)
        for parameter in self.parameters():
            reinitialize(parameter, uniform(parameter.shape, 1 / math.sqrt(hidden_dim)))

    def forward(self, x, state=None):
        """The state after each token, (..., length, hidden_dim), from ``x``, (..., length, input_dim).

        Args:
            state: the state before the first token, (..., hidden_dim); zeros by default.
        """
        if x.shape[-2] == 0:
            raise ValueError(f"GRU got x of shape {x.shape}: expected at least one token")
        return stack(self.run([x[..., t, :] for t in range(x.shape[-2])], state), axis=-2)

    def run(self, steps, state=None):
        """The states after each token, a list, from a list of tokens, tensors (..., input_dim)."""
        if state is None:
            shape = (*steps[0].shape[:-1], self.hidden_dim)
            state = Tensor._wrap(backend_of(steps[0]._data).zeros(shape, steps[0].dtype))
        states = []
        for x in steps:
            state = self.advance(x, state)
            states.append(state)
        return states

    def advance(self, x, state):
        """The state, (..., hidden_dim), after one more token ``x``, (..., input_dim)."""
        gates = 2 * self.hidden_dim
        from_input, from_state = self.input(x), self.hidden(state)  # (..., 3 hidden_dim)
        reset_and_update = sigmoid(from_input[..., :gates] + from_state[..., :gates])
        reset = reset_and_update[..., : self.hidden_dim]
        update = reset_and_update[..., self.hidden_dim :]
        candidate = tanh(from_input[..., gates:] + reset * from_state[..., gates:])
        return candidate + update * (state - candidate)
