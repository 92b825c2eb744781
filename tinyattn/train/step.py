"""One forward and backward pass over a batch, whole; train/parallel.py shares it among workers."""

from ..autograd import first_order
from ..backend import Random, get_backend, use_random

IGNORED_TARGET = -100  # what cross_entropy does not count


class PlainStep:
    """Computes a batch's loss and leaves the gradients in the parameters.

    Args:
        model: a module with ``loss(ids, targets)``, the mean loss of a batch.
    """

    workers = 1

    def __init__(self, model):
        self.model = model

    def __call__(self, inputs, targets, key):
        """The loss as a number.

        Args:
            inputs: ids, NumPy integers (batch, characters).
            targets: ids, the same shape.
            key: whole number that fixes every random draw of the pass (dropout).
        """
        self.model.zero_grad()
        with use_random(Random(key)), first_order():
            loss = batch_loss(self.model, inputs, targets)
            loss.backward()
        return float(loss.item())

    def work_for(self, optimizer):
        """Nothing: the optimiser works alone."""

    def map(self, function, items):
        """``function(model, item)`` of each of ``items``, in order."""
        return [function(self.model, item) for item in items]

    def close(self):
        """Nothing to give back."""


def batch_loss(model, inputs, targets):
    """The mean loss of a batch that is on the host, moved to the model's device; a Tensor of shape ()."""
    backend = get_backend(model.device)
    return model.loss(backend.asarray(inputs), backend.asarray(targets))
