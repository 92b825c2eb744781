"""The feed-forward layer of a transformer, applied to each token."""

from .activations import Activation
from .dropout import Dropout
from .linear import Linear
from .module import Module


class FeedForward(Module):
    """Two affine maps with a nonlinearity between them: activation(x W1 + b1) W2 + b2.

    Args:
        dim: length of a token's vector.
        hidden_dim: width of the hidden layer, 4 dim by default.
        activation: see ``Activation``.
        bias: whether to add b1 and b2.
        dropout: dropout probability of the output.

    Source: A. Vaswani et al., "Attention Is All You Need" (2017), section 3.3.

    >>> import tinyattn as ta
    >>> ta.nn.FeedForward(4)(ta.tensor([[1.0, 2.0, 3.0, 4.0]])).shape
    (1, 4)
    """

    def __init__(self, dim, hidden_dim=None, activation="gelu", bias=True, dropout=0.0):
        hidden_dim = 4 * dim if hidden_dim is None else hidden_dim
        self.expand = Linear(dim, hidden_dim, bias=bias)
        self.activation = Activation(activation)
        self.contract = Linear(hidden_dim, dim, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x):
        return self.dropout(self.contract(self.activation(self.expand(x))))
