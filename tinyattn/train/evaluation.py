"""The loss of a whole text."""

import numpy as np

from ..autograd import no_grad
from ..backend import Random
from ..data import evaluation_batches
from ..nn import evaluating
from .step import IGNORED_TARGET, PlainStep, batch_loss

CHARACTERS_AT_ONCE = 2048  # enough for the matrix products, little enough to stay near the cache


def evaluate(model, ids, block_size, prepare=None, share=None):
    """The mean loss over ``ids``, in windows that follow each other and so cover it once.

    The model is in evaluation mode meanwhile, and every module has its own mode back afterwards, also
    after an exception. No stream of random numbers that training draws from is touched.

    Args:
        model: a module with ``loss(ids, targets)``.
        ids: whole numbers, shape (length,).
        block_size: characters in a window.
        prepare: ``(inputs, targets, random) -> (inputs, targets)``, what the model's task makes of a batch;
            the same random numbers are given each time, so that two evaluations can be compared.
        share: ``(function, batches) -> results``, calls ``function(model, batch)`` for each, such as the ``map`` of a
            ``ParallelStep`` of this model; one after the other by default.

    Returns:
        Nats for each target that counts, a float; the sum is kept in float64, in the order of the text.
    """
    batch_size = max(1, CHARACTERS_AT_ONCE // block_size)
    batches = list(evaluation_batches(ids, block_size, batch_size))
    if prepare is not None:
        random = Random(0)
        batches = [prepare(inputs, targets, random) for inputs, targets in batches]
    with evaluating(model):
        results = (share or PlainStep(model).map)(_summed_loss, batches)
    return sum(total for total, _ in results) / sum(count for _, count in results)


def _summed_loss(model, batch):
    inputs, targets = batch
    count = int(np.count_nonzero(targets != IGNORED_TARGET))
    with no_grad():
        return float(batch_loss(model, inputs, targets).item()) * count, count
