"""Base classes of the models: the loss, and the cache of models with a state per layer."""

from ..nn import Module
from ..ops import cross_entropy
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
    """The base class of models whose layers have a state of constant size."""

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
