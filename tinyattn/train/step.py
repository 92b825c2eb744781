"""Data-parallel loss and gradients of a batch: each worker computes a shard, and the gradients are summed.

Each worker records its own graph. The sum is in a fixed order, so that a run is bit-identical for the same number of
workers, whether threads or processes; another number of workers changes the rounding.
"""

import numpy as np

from ..autograd import Tensor, first_order, gradient_map
from ..backend import Random, get_backend, use_random
from ..ops.losses import IGNORE_INDEX
from .parallel.executor import shards
from .precision import products_in

# Tokens per micro-batch on a CPU: gradient accumulation bounds the memory of the activations.
MICRO_BATCH_TOKENS = 4096


class BatchStep:
    """Computes the loss of a batch and stores the gradients in ``.grad`` of the parameters.

    The loss is the mean over the counted targets: those that differ from ``IGNORE_INDEX``. The weight of a shard is
    therefore its number of counted targets. The gradients equal those of the whole batch up to rounding.

    Args:
        executor: an ``Executor`` of a model with ``loss(ids, targets)``, the mean loss of a batch.
        optimizers: optimizers of the model's parameters. Gradients are stored in the arrays that the optimizers read,
            and which all workers can write to. The next step overwrites them: copy a gradient to keep it.
        communicator: of MPI processes that train the same model on other shards: an mpi4py communicator, or an object
            with its ``allreduce(number)`` and ``Allreduce(send, receive)``. Each process then gets the loss and the
            gradients of all shards together.
        precision: of a GPU's products: see ``train/precision.py``.
        loss_scale: ``LossScale``, by which all gradients are multiplied, or None.

    Attributes:
        executor, model: as given.
        parameters: the model's parameters when the step was created.

    >>> import numpy as np
    >>> import tinyattn as ta
    >>> from tinyattn.train.parallel import make_executor
    >>> model = ta.nn.Embedding(5, 5)
    >>> model.loss = lambda ids, targets: ta.cross_entropy(model(ids), targets)
    >>> optimizer = ta.optim.AdamW(model.parameters())
    >>> executor = make_executor(model, workers=2)
    >>> step = BatchStep(executor, [optimizer])
    >>> ids = np.array([[0, 1, 2, 3], [1, 2, 3, 4]])
    >>> loss = step(ids, ids, key=0)
    >>> optimizer.step(executor)
    >>> step(ids, ids, key=1) < loss
    True
    >>> executor.close()
    """

    def __init__(
        self, executor, optimizers=(), communicator=None, precision="float32", loss_scale=None
    ):
        self.executor = executor
        self.model = executor.model
        self.parameters = self.model.parameters()  # cached: the traversal is slow
        self.communicator = communicator
        self.precision = precision
        self.loss_scale = loss_scale
        self.optimizers = list(optimizers)
        self._gradients = {}  # parameter -> tensor for its gradient
        for optimizer in self.optimizers:
            executor.share(optimizer)
            for parameter, array in optimizer.gradient_arrays().items():
                self._gradients[parameter] = Tensor._wrap(array)

    def __call__(self, inputs, targets, key):
        """Compute the gradients; returns the loss: a float, on a GPU a Tensor of shape ().

        Args:
            inputs: ids, NumPy integers (batch, length).
            targets: ids of the same shape, or ``IGNORE_INDEX``.
            key: integer that seeds the random draws of the pass (dropout), together with the shard's number.

        Raises:
            Exception: the first error in the order of the shards, after the calls in all workers have ended.
        """
        for parameter in self.parameters:
            parameter.grad = None
        for gradient in self._gradients.values():
            gradient.bump_version()  # it is overwritten below
        count = self._count(targets)
        scale = 1.0 if self.loss_scale is None else self.loss_scale.value
        parts = [
            (inputs[rows], targets[rows], count, scale, (key, number))
            for number, rows in enumerate(shards(len(inputs), self.executor.workers))
        ]
        losses, total = [], {}

        def add(result):
            losses.append(result[0])
            self._accumulate(total, result[1])

        with products_in(self.precision):
            self.executor.run(_loss_and_gradients, parts, add)
        loss = sum(losses[1:], losses[0])
        if self.communicator is not None:
            loss = self._allreduce(loss, total)
        for parameter in self.parameters:
            if parameter in total:
                gradient = self._gradients.get(parameter)
                parameter.grad = Tensor._wrap(total[parameter]) if gradient is None else gradient
        return loss

    def _count(self, targets):
        """The number of counted targets in all processes; at least 1, since it is a divisor."""
        count = int(np.count_nonzero(targets != IGNORE_INDEX))
        if self.communicator is not None:
            count = self.communicator.allreduce(count)
        return max(count, 1)

    def _accumulate(self, total, gradients):
        """Add a shard's gradients ``{leaf: array}`` to the sum ``total`` over earlier shards, in-place."""
        if not total and self.model.device != "cpu":
            # One copy per buffer of the optimizer, instead of one per parameter.
            for optimizer in self.optimizers:
                for parameter in optimizer.copy_gradients(gradients):
                    total[parameter] = self._gradients[parameter]._data
                    del gradients[parameter]
        for leaf, gradient in gradients.items():
            if leaf in total:
                total[leaf] += gradient
            elif leaf in self._gradients:
                total[leaf] = self._gradients[leaf]._data
                total[leaf][...] = gradient
            else:
                total[leaf] = gradient.copy()  # the next call of the workers overwrites the array

    def _allreduce(self, loss, gradients):
        """Sum the gradients over all processes, in-place; returns the sum of the losses."""
        parameters = [p for p in self.parameters if p.requires_grad]
        for parameter in parameters:  # all processes must send the same shapes
            if parameter not in gradients:
                gradients[parameter] = np.zeros(parameter.shape, parameter.dtype)
        sent = np.concatenate([gradients[p].reshape(-1) for p in parameters])
        received = np.empty_like(sent)
        self.communicator.Allreduce(sent, received)
        parts = np.split(received, np.cumsum([p.size for p in parameters])[:-1])
        for parameter, part in zip(parameters, parts, strict=True):
            gradients[parameter][...] = part.reshape(parameter.shape)
        return self.communicator.allreduce(loss)


def _loss_and_gradients(model, shard):
    """The contribution of a shard to the mean loss and its gradients ``{leaf: array}``, with gradient accumulation.

    Args:
        shard: ids and targets (rows, length), the number of counted targets in the whole batch, the factor of the
            gradients, and the seed.
    """
    inputs, targets, count, scale, seed = shard
    total, gradients = 0.0, {}
    micro_batches = -(-inputs.size // MICRO_BATCH_TOKENS) if model.device == "cpu" else 1
    with use_random(Random(seed)), first_order():
        for rows in shards(len(inputs), micro_batches):
            weight = int(np.count_nonzero(targets[rows] != IGNORE_INDEX)) / count
            loss = batch_loss(model, inputs[rows], targets[rows])
            factor = weight * scale
            cotangent = None if factor == 1 else np.asarray(factor, loss.dtype)
            for leaf, gradient in gradient_map(loss, cotangent).items():
                if leaf in gradients:
                    gradients[leaf] += gradient
                else:
                    gradients[leaf] = gradient
            total += (float(loss.item()) if model.device == "cpu" else loss.detach()) * weight
    return total, gradients


def batch_loss(model, inputs, targets):
    """The mean loss of a batch, a Tensor of shape (); the batch is copied from host memory to the model's device."""
    backend = get_backend(model.device)
    return model.loss(backend.asarray(inputs), backend.asarray(targets))
