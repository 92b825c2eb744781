"""The loss of a text, or of a fixed part of a long one."""

import time

import numpy as np

from ..autograd import no_grad
from ..backend import Random
from ..data import evaluation_batches
from ..nn import evaluating
from ..ops.losses import IGNORE_INDEX
from .parallel import SerialExecutor
from .step import batch_loss

CHARACTERS_AT_ONCE = 2048  # enough for the matrix products, little enough to stay near the cache

# How long the evaluation computes between two calls of ``watch`` [s].
_SHORTEST, _LONGEST = 0.1, 0.4


class Stopped(Exception):
    """An evaluation or a sample was asked to stop before its end."""


def evaluate(model, ids, block_size, prepare=None, executor=None, *, characters=None, watch=None):
    """The mean loss over ``ids``, in windows that follow each other and so cover it once.

    The model is in evaluation mode meanwhile, and every module has its own mode back afterwards, also
    after an exception. No stream of random numbers that training draws from is touched.

    Args:
        model: a module with ``loss(ids, targets)``.
        ids: whole numbers, shape (length,).
        block_size: characters in a window.
        prepare: ``(inputs, targets, random) -> (inputs, targets)``, what the model's task makes of a batch;
            the same random numbers are given each time, so that two evaluations can be compared.
        executor: an ``Executor`` of this model that shares the batches among its workers; serial by default.
        characters: how many are evaluated at most, in whole windows spread evenly over ``ids``, the same ones
            each time; None for all.
        watch: ``(done, total)`` is called with numbers of characters, several times a second; what it raises
            ends the evaluation.

    Returns:
        Nats for each target that counts, a float; the sum is kept in float64, in the order of the text. It does
        not depend on the number of workers or on how long anything takes.
    """
    executor = executor or SerialExecutor(model)
    batch_size = max(1, CHARACTERS_AT_ONCE // block_size)
    batches = evaluation_batches(ids, block_size, batch_size, characters)
    if prepare is not None:
        random = Random(0)
        batches = (prepare(inputs, targets, random) for inputs, targets in batches)
    loss, count, done = 0.0, 0, 0
    size = evaluated_characters(len(ids), block_size, characters)
    with evaluating(model):
        for piece in _pieces(batches, executor.workers):
            for total, number in executor.map(_summed_loss, piece):
                loss, count = loss + total, count + number
            done += sum(inputs.size for inputs, _ in piece)
            if watch is not None:
                watch(done, size)
    return loss / count


def evaluated_characters(length, block_size, characters=None):
    """How many characters of a text of ``length`` are predicted by ``evaluate`` with these arguments.

    >>> evaluated_characters(1001, 64), evaluated_characters(1001, 64, 500)
    (1000, 448)
    """
    if characters is None or characters >= length - 1:
        return length - 1
    return max(1, characters // block_size) * block_size


def _pieces(batches, workers):
    """Lists of batches, each taking long enough to be worth sharing and little enough to be waited for."""
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
