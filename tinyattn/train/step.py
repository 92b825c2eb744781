"""The loss and the gradients of a batch, sharded among workers; the shards' gradients are summed in a fixed order.

Each worker records and walks a graph of its own. Because of the fixed order a run is reproduced to the last bit by the
same number of workers, be they threads or processes; with another number the sums are rounded differently.
"""

import numpy as np

from ..autograd import Tensor, first_order, gradient_map
from ..backend import Random, get_backend, use_random
from ..ops.losses import IGNORE_INDEX
from .parallel.executor import shards

# Tokens computed at once on a CPU: bounds the memory of the activations.
TOKENS_AT_ONCE = 4096


class BatchStep:
    """Computes a batch's loss and leaves the gradients in the parameters.

    The loss is the mean over all targets that count, so each shard weighs as much as it has of them; the gradients
    equal those of the whole batch to rounding.

    Args:
        executor: an ``Executor`` of a model with ``loss(ids, targets)``, the mean loss of a batch.
        optimizers: optimizers of the model's parameters. Gradients are left in the arrays that their updates read, and
            all workers may write to these: the next step overwrites what ``.grad`` has shown, so copy one to keep it.
        communicator: of MPI processes that train the same model on other batches: an mpi4py communicator, or anything
            with its ``allreduce(number)`` and ``Allreduce(send, receive)``. Every process then gets the loss and the
            gradients of all batches together.

    Attributes:
        executor, model: as given.
        parameters: those of the model when the step was made.

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

    def __init__(self, executor, optimizers=(), communicator=None):
        self.executor = executor
        self.model = executor.model
        self.parameters = self.model.parameters()  # finding them takes a while
        self.communicator = communicator
        self.optimizers = list(optimizers)
        self._gradients = {}  # parameter -> the tensor that its gradient is always left in
        for optimizer in self.optimizers:
            executor.share(optimizer)
            for parameter, array in optimizer.gradient_arrays().items():
                self._gradients[parameter] = Tensor._wrap(array)

    def __call__(self, inputs, targets, key):
        """The loss: a number, or on a device a Tensor of shape (), for which the host waits only when it is read.

        Args:
            inputs: ids, NumPy integers (batch, length).
            targets: ids of the same shape; ``IGNORE_INDEX`` does not count.
            key: whole number that fixes every random draw of the pass (dropout), together with the shard's number.

        Raises:
            Exception: what a worker raised first, in the order of the shards, once all have stopped.
        """
        for parameter in self.parameters:
            parameter.grad = None
        for gradient in self._gradients.values():
            gradient.bump_version()
        count = self._count(targets)
        parts = [
            (inputs[rows], targets[rows], count, (key, number))
            for number, rows in enumerate(shards(len(inputs), self.executor.workers))
        ]
        losses, total = [], {}

        def add(result):
            losses.append(result[0])
            self._accumulate(total, result[1])

        self.executor.run(_loss_and_gradients, parts, add)
        loss = sum(losses[1:], losses[0])
        if self.communicator is not None:
            loss = self._allreduce(loss, total)
        for parameter in self.parameters:
            if parameter in total:
                place = self._gradients.get(parameter)
                parameter.grad = Tensor._wrap(total[parameter]) if place is None else place
        return loss

    def _count(self, targets):
        """How many targets count, in all processes together; at least 1, so that it divides."""
        count = int(np.count_nonzero(targets != IGNORE_INDEX))
        if self.communicator is not None:
            count = self.communicator.allreduce(count)
        return max(count, 1)

    def _accumulate(self, total, gradients):
        """Add a shard's gradients ``{leaf: array}`` to those of earlier shards."""
        if not total and self.model.device != "cpu":
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
                total[leaf] = gradient.copy()  # the workers' next call overwrites it

    def _allreduce(self, loss, gradients):
        """Sum the gradients over all processes, in place; returns the sum of the losses."""
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
    """A shard's share of the mean loss and of the gradients, ``{leaf: array}``, in pieces of bounded size.

    Args:
        shard: ids and targets (rows, length), the number of targets that count in the whole batch, and the seed.
    """
    inputs, targets, count, seed = shard
    total, gradients = 0.0, {}
    pieces = -(-inputs.size // TOKENS_AT_ONCE) if model.device == "cpu" else 1
    with use_random(Random(seed)), first_order():
        for rows in shards(len(inputs), pieces):
            share = np.count_nonzero(targets[rows] != IGNORE_INDEX) / count
            loss = batch_loss(model, inputs[rows], targets[rows])
            cotangent = None if share == 1 else np.asarray(share, loss.dtype)
            for leaf, gradient in gradient_map(loss, cotangent).items():
                if leaf in gradients:
                    gradients[leaf] += gradient
                else:
                    gradients[leaf] = gradient
            total += (float(loss.item()) if model.device == "cpu" else loss.detach()) * share
    return total, gradients


def batch_loss(model, inputs, targets):
    """The mean loss of a batch in host memory, which is moved to the model's device; a Tensor of shape ()."""
    backend = get_backend(model.device)
    return model.loss(backend.asarray(inputs), backend.asarray(targets))
