"""The embedding layer: a learned vector for each token."""

from ..ops import embedding
from .initialization import normal
from .module import Module
from .parameter import Parameter


class Embedding(Module):
    """Look up the row of a table for each id.

    Args:
        num_embeddings: number of rows, that is of different ids.
        embedding_dim: length of a row.

    Attributes:
        weight: (num_embeddings, embedding_dim), initialized with N(0, 1), as in PyTorch.

    Raises:
        IndexError: from ``forward``, for an id outside 0 .. num_embeddings - 1, on every device.

    >>> import tinyattn as ta
    >>> ta.nn.Embedding(10, 4)(ta.tensor([[1, 2, 2]])).shape
    (1, 3, 4)
    """

    def __init__(self, num_embeddings, embedding_dim):
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.weight = Parameter(normal((num_embeddings, embedding_dim), 1.0))

    def forward(self, ids):
        return embedding(ids, self.weight)

    def extra_repr(self):
        return f"{self.num_embeddings}, {self.embedding_dim}"
