"""The loss of a whole text."""

from ..autograd import no_grad
from ..data import evaluation_batches
from ..nn import evaluating
from .step import batch_loss

CHARACTERS_AT_ONCE = 2048  # enough for the matrix products, little enough to stay near the cache


def evaluate(model, ids, block_size):
    """The mean loss over ``ids``, in windows that follow each other and so cover it once.

    The model is in evaluation mode meanwhile, and every module has its own mode back afterwards, also
    after an exception. Nothing is drawn from any stream of random numbers.

    Args:
        model: a module with ``loss(ids, targets)``.
        ids: whole numbers, shape (length,).
        block_size: characters in a window.

    Returns:
        Nats a character, a float; the sum is kept in float64.
    """
    total, count = 0.0, 0
    with evaluating(model), no_grad():
        batch_size = max(1, CHARACTERS_AT_ONCE // block_size)
        for inputs, targets in evaluation_batches(ids, block_size, batch_size):
            total += float(batch_loss(model, inputs, targets).item()) * targets.size
            count += targets.size
    return total / count
