"""Base classes of the models: the loss, and the cache of models with a state per layer."""

from ..nn import Module
from ..ops import cross_entropy, linear
from .ids import as_ids


class LanguageModel(Module):
    """The base class of all models; a subclass sets ``config`` and maps ids to logits."""

    def loss(self, ids, targets):
        """The mean cross-entropy of ``targets`` under the model's predictions for ``ids``, in nats: a single number.

        Args:
            ids, targets: integers (..., length); a target of -100 is ignored.
        """
        logits = self(ids)
        if logits.dtype == "float16":  # the mean of many losses needs the digits of float32
            logits = logits.astype("float32")
        return cross_entropy(logits, as_ids(targets, self))

    def extra_repr(self):
        return self.config.changed_settings()


class StatefulLanguageModel(LanguageModel):
    """The base class of models whose layers have a state of constant size.

    A subclass has an ``embedding``, a final ``norm``, and ``residual_stream(ids, states)``, which returns the residual
    stream after the last layer, (..., length, dim), and the list of the layers' states after the last token.
    """

    def forward(self, ids, *, cache=None):
        """The logits of the token that follows each of ``ids``.

        Args:
            ids: integers (..., length), a tensor or an array of the model's device, or nested lists.
            cache: a ``model.cache()`` with the states after the tokens before ``ids``; it is updated.

        Returns:
            (..., length, vocabulary_size).
        """
        ids = as_ids(ids, self)
        states = [None] * self.config.layers if cache is None else cache.states
        x, states = self.residual_stream(ids, states)
        if cache is not None:
            cache.states = states
            cache.length += ids.shape[-1]
        return linear(self.norm(x), self.embedding.weight.T)

    def cache(self):
        """An empty cache for ``model(ids, cache=cache)``: one state per layer, of constant size."""
        return StateCache(self.config.layers)


class StateCache:
    """The states of a recurrent or convolutional model after the tokens so far: one tensor per layer.

    >>> StateCache(layers=2)
    StateCache(layers=2, length=0)
    """

    def __init__(self, layers):
        self.states = [None] * layers
        self.length = 0

    def __repr__(self):
        return f"StateCache(layers={len(self.states)}, length={self.length})"
