"""The dropout layer."""

from ..ops import dropout
from .module import Module


class Dropout(Module):
    """In training mode, zero elements with probability ``p`` and divide the others by 1 - p; in eval mode, do nothing.

    Raises:
        ValueError: for ``p`` outside [0, 1].

    >>> import tinyattn as ta
    >>> ta.nn.Dropout(0.9).eval()(ta.tensor([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """

    def __init__(self, p=0.5):
        if not 0 <= p <= 1:
            raise ValueError(f"the probability p of dropout must be between 0 and 1, got {p}")
        self.p = p

    def forward(self, x):
        return dropout(x, self.p, training=self.training)

    def extra_repr(self):
        return f"{self.p}"
