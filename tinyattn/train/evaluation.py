"""Evaluation: the loss of a text, or of a fixed sample of its windows."""

import time

import numpy as np

from ..autograd import no_grad
from ..backend import Random
from ..data import evaluation_batches
from ..nn import evaluating
from ..ops.losses import IGNORE_INDEX
from .parallel import SerialExecutor
from .step import batch_loss

# Per batch: large enough for efficient matrix products, small enough for the cache.
TOKENS_AT_ONCE = 2048

# Bounds of the time between two calls of ``watch`` [s].
_SHORTEST, _LONGEST = 0.1, 0.4


class Stopped(Exception):
    """An evaluation or sample was stopped before it was complete."""


def evaluate(model, ids, block_size, prepare=None, executor=None, *, tokens=None, watch=None):
    """The mean loss over ``ids``, in consecutive windows that cover it once.

    The model is in eval mode during the call; afterwards, also after an exception, each module is in its previous mode.
    The random streams of training are not used.

    Args:
        model: a module with ``loss(ids, targets)``.
        ids: integers, shape (length,).
        block_size: tokens per window.
        prepare: ``(inputs, targets, random) -> (inputs, targets)``, prepares a batch for the model's task
            (``build_task``); ``random`` has the same seed in each call, so that evaluations can be compared.
        executor: an ``Executor`` of this model that shares the batches among its workers; serial by default.
        tokens: largest number to evaluate, in whole windows evenly spaced over ``ids``, the same ones each time;
            None for all.
        watch: called several times per second with ``(done, total)``, numbers of tokens; an exception from it
            stops the evaluation.

    Returns:
        The loss in nats per target that counts, a float; summed in float64 in the order of the text. It depends neither
        on the number of workers nor on timing.

    >>> import numpy as np
    >>> import tinyattn as ta
    >>> model = ta.models.GPT(ta.models.GPTConfig(vocabulary_size=4, block_size=8, layers=1, heads=1, dim=8))
    >>> for parameter in model.parameters():
    ...     parameter.data[...] = 0  # each of the 4 tokens is equally likely
    >>> round(evaluate(model, np.arange(100) % 4, block_size=8), 4), round(float(np.log(4)), 4)
    (1.3863, 1.3863)
    """
    executor = executor or SerialExecutor(model)
    batch_size = max(1, TOKENS_AT_ONCE // block_size)
    batches = evaluation_batches(ids, block_size, batch_size, tokens)
    if prepare is not None:
        random = Random(0)
        batches = (prepare(inputs, targets, random) for inputs, targets in batches)
    loss, count, done = 0.0, 0, 0
    size = evaluated_tokens(len(ids), block_size, tokens)
    with evaluating(model):
        for piece in _pieces(batches, executor.workers):
            for total, number in executor.map(_summed_loss, piece):
                loss, count = loss + total, count + number
            done += sum(inputs.size for inputs, _ in piece)
            if watch is not None:
                watch(done, size)
    return loss / count


def evaluated_tokens(length, block_size, tokens=None):
    """The number of tokens of a text of ``length`` that ``evaluate`` predicts with these arguments.

    >>> evaluated_tokens(1001, 64), evaluated_tokens(1001, 64, 500)
    (1000, 448)
    """
    if tokens is None or tokens >= length - 1:
        return length - 1
    return max(1, tokens // block_size) * block_size


def _pieces(batches, workers):
    """Lists of batches, each long enough to share among workers and short enough for frequent calls of ``watch``."""
    size, piece = workers, []
    began = time.perf_counter()
    for batch in batches:
        piece.append(batch)
        if len(piece) < size:
            continue
        yield piece
        seconds = time.perf_counter() - began
        if seconds < _SHORTEST:
            size *= 2
        elif seconds > _LONGEST:
            size = max(workers, size // 2)
        piece, began = [], time.perf_counter()
    if piece:
        yield piece


def _summed_loss(model, batch):
    inputs, targets = batch
    count = int(np.count_nonzero(targets != IGNORE_INDEX))
    with no_grad():
        return float(batch_loss(model, inputs, targets).item()) * count, count
