"""A training step by several workers: the batch is sharded, and the shards' gradients are added in a fixed order.

Each worker records and walks a graph of its own. Workers are threads, for NumPy gives up the interpreter's lock while
it computes, or processes (``forks.py``), which need not wait for each other's lock. BLAS is held to one thread a worker
meanwhile: what splits is the batch, once a step, and not every small product.

The sum of gradients has a fixed order, so that a run is reproduced to the last bit by the same number of workers, be
they threads or processes. With another number the same sums are rounded otherwise.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from ...autograd import Tensor, first_order
from ...autograd.walk import walk
from ...backend import Random, shared, use_random
from ...optim.optimizer import one_after_the_other
from ..step import IGNORED_TARGET
from .forks import Forks
from .index_queue import Turns
from .messages import can_be_sent
from .threads import Workers, available_cores

# Of a shard: bounds the activations that are alive.
TOKENS_AT_ONCE = 4096


class ParallelStep:
    """Computes a batch's loss and leaves the gradients in the parameters, as ``PlainStep`` does, by several workers.

    The loss is the mean over all targets that count, so each shard weighs as much as it has of them; the gradients
    equal those of the whole batch to rounding.

    Args:
        model: a module on the CPU with ``loss(ids, targets)``, the mean loss of a batch.
        workers: their number; by default one for each core that the process may use.
        communicator: where further processes train the same model on other batches, what joins them: an mpi4py
            communicator, or anything with its ``allreduce(number)`` and ``Allreduce(send, receive)``. Every process
            then gets the loss and the gradients of all batches together.
        processes: whether the workers are processes where the system lets them (see ``forks.py``), and not threads:
            faster, but made at the first step as copies of the caller, they do not see what is changed later in the
            model, but for values, modes and ``requires_grad``.

    Attributes:
        workers: their number.
        parameters: those of the model when the step was made.

    Raises:
        ValueError: for fewer than one worker.

    >>> import numpy as np
    >>> import tinyattn as ta
    >>> model = ta.models.GPT(ta.models.GPTConfig(vocabulary_size=5, block_size=4, layers=1, heads=1, dim=4))
    >>> step = ParallelStep(model, workers=2)
    >>> ids = np.array([[0, 1, 2, 3], [1, 2, 3, 4]])
    >>> loss = step(ids, ids, key=0)
    >>> model.embedding.weight.grad.shape
    (5, 4)
    >>> step.close()
    """

    def __init__(self, model, workers=None, communicator=None, processes=False):
        workers = available_cores() if workers is None else workers
        self.model = model
        self.parameters = model.parameters()  # looking through the modules takes a while
        self.workers = workers
        self.communicator = communicator
        self._workers = Workers(workers)
        self._forks = None
        if processes and workers > 1 and communicator is None:  # MPI does not survive a fork
            self._forks = Forks(model, self.parameters, workers)
        self._optimizers = []
        self._gradients = {}  # parameter -> the tensor that its gradient is always left in
        self._closed = False

    def work_for(self, optimizer):
        """Share the optimiser's updates among the workers, and leave gradients where it reads them.

        The next step then writes into the tensors that ``.grad`` has shown: copy one to keep it. The results are the
        same to the last bit.
        """
        if self.workers > 1:
            self._optimizers.append(optimizer)
            optimizer.for_each = self.for_each
        if self._forks is not None:
            optimizer.move(shared.zeros)
            self._forks.close()  # later copies have this memory too
        for parameter, array in optimizer.gradient_arrays().items():
            self._gradients[parameter] = Tensor._wrap(array)

    def __call__(self, inputs, targets, key):
        """The loss as a number.

        Args:
            inputs: ids, NumPy integers (batch, length).
            targets: ids of the same shape; -100 does not count.
            key: whole number that fixes every random draw of the pass (dropout), together with the shard's number.

        Raises:
            Exception: what a worker raised first, in the order of the shards, once all have stopped.
        """
        self._refuse_if_closed()
        for parameter in self.parameters:
            parameter.grad = None
        for gradient in self._gradients.values():
            gradient.bump_version()
        count = self._count(targets)
        parts = [
            _Shard(inputs[rows], targets[rows], count, (key, number))
            for number, rows in enumerate(shards(len(inputs), self.workers))
        ]
        results = self._of_each_part(_loss_and_gradients, parts, self._put_in_place)
        loss = sum(loss for loss, _ in results)
        gradients = self._sum_in_order([gradients for _, gradients in results])
        if self.communicator is not None:
            loss = self._join(loss, gradients)
        for parameter in self.parameters:
            if parameter in gradients:
                place = self._gradients.get(parameter)
                parameter.grad = Tensor._wrap(gradients[parameter]) if place is None else place
        return loss

    def map(self, function, items):
        """``function(model, item)`` of each of ``items``, in order, the items shared among the workers.

        Args:
            function: one that a module defines, and whose result can be pickled: a process must be able to send both.
                What it draws from the default random stream differs from run to run of processes.
        """
        parts = [(function, items[rows]) for rows in shards(len(items), self.workers)]
        return [value for values, _ in self._of_each_part(_values, parts) for value in values]

    def for_each(self, function, items):
        """Call ``function`` on each of ``items``, shared among the workers.

        The order is not fixed: this is for calls that write to different places.

        Args:
            function: of one argument. Processes call it if a module defines it (or it is a partial of such a one)
                and all arrays in it and in the items lie in shared memory, else threads do.
            items: a list.
        """
        self._refuse_if_closed()
        items = list(items)
        if (
            self._forks is not None
            and 1 < len(items) <= Turns.most
            and Forks.possible()
            and can_be_sent((function, items))
        ):
            with self._workers.blas_limited():
                self._forks.share(function, items)
        else:
            self._workers.for_each(function, items)

    def _put_in_place(self, result):
        """Move a shard's gradients to where the optimiser reads them, while other processes are still at theirs."""
        _, gradients = result
        for leaf, gradient in gradients.items():
            place = self._gradients.get(leaf)
            if place is not None:
                place._data[...] = gradient
                gradients[leaf] = place._data

    def _of_each_part(self, function, parts, meanwhile=None):
        """``function(model, part)`` of at most as many parts as there are workers, each by one of them."""
        if self._closed:
            return [function(self.model, part) for part in parts]
        if self._forks is not None and Forks.possible():
            with self._workers.blas_limited():
                return self._forks.run(function, parts, meanwhile)
        return self._workers.run([partial(function, self.model, part) for part in parts])

    def _refuse_if_closed(self):
        if self._closed:
            raise RuntimeError("this step was closed: make a new one")

    def _sum_in_order(self, parts):
        """The sum of the dicts ``{leaf: array}``, first to last, where it belongs or in an array of the first dict."""
        total = {}
        for leaf in dict.fromkeys(leaf for part in parts for leaf in part):
            arrays = [part[leaf] for part in parts if leaf in part]
            if leaf in self._gradients:
                out = self._gradients[leaf]._data
            else:
                out = arrays[0] if leaf in parts[0] else np.empty_like(arrays[0])
            if len(arrays) > 1:
                np.add(arrays[0], arrays[1], out=out)
            elif out is not arrays[0]:
                out[...] = arrays[0]
            for array in arrays[2:]:
                out += array
            total[leaf] = out
        return total

    def _count(self, targets):
        """How many targets count, in all processes together; at least 1, so that it divides."""
        count = int(np.count_nonzero(targets != IGNORED_TARGET))
        if self.communicator is not None:
            count = self.communicator.allreduce(count)
        return max(count, 1)

    def _join(self, loss, gradients):
        """Add up the loss and the gradients of all processes; returns the loss."""
        parameters = [p for p in self.parameters if p.requires_grad]
        for parameter in parameters:  # all processes must send the same shapes
            if parameter not in gradients:
                gradients[parameter] = np.zeros(parameter.shape, parameter.dtype)
        sent = np.concatenate([gradients[p].reshape(-1) for p in parameters])
        received = np.empty_like(sent)
        self.communicator.Allreduce(sent, received)
        start = 0
        for parameter in parameters:
            end = start + parameter.size
            gradients[parameter][...] = received[start:end].reshape(parameter.shape)
            start = end
        return self.communicator.allreduce(loss)

    def close(self):
        """End the workers; the step cannot be used any more, and optimisers that it worked for work alone."""
        self._closed = True
        for optimizer in self._optimizers:
            optimizer.for_each = one_after_the_other
        if self._forks is not None:
            self._forks.close()
        self._workers.close()


class _Shard(NamedTuple):
    """A part of a batch."""

    inputs: np.ndarray
    targets: np.ndarray
    count: int  # targets that count in the whole batch
    seed: tuple


def _loss_and_gradients(model, shard):
    """A shard's share of the mean loss and of the gradients, ``{parameter: array}``, in pieces of bounded size."""
    total, gradients = 0.0, {}
    pieces = -(-shard.inputs.size // TOKENS_AT_ONCE)
    with use_random(Random(shard.seed)), first_order():
        for rows in shards(len(shard.inputs), pieces):
            inputs, targets = shard.inputs[rows], shard.targets[rows]
            share = np.count_nonzero(targets != IGNORED_TARGET) / shard.count
            loss = model.loss(inputs, targets)
            total += float(loss.item()) * share
            cotangent = np.asarray(share, loss.dtype)
            _add(gradients, walk([loss], [cotangent], False, False))
    return total, {leaf: gradient for leaf, (gradient, _) in gradients.items()}


def _values(model, part):
    """The values of a function for each of some items, and no gradients."""
    function, items = part
    return [function(model, item) for item in items], {}


def _add(gradients, more):
    """Add gradients ``{leaf: (array, owned)}`` to others, in place where the array is owned."""
    for leaf, (gradient, owned) in more.items():
        if leaf not in gradients:
            gradients[leaf] = (gradient if owned else gradient.copy(), True)
        else:
            held, _ = gradients[leaf]
            held += gradient


def shards(length, parts):
    """Slices that cut ``length`` rows into ``parts`` nearly equal ones, or into as many as there are rows.

    >>> shards(5, 2), shards(1, 4)
    ([slice(0, 3, None), slice(3, 5, None)], [slice(0, 1, None)])
    """
    parts = max(1, min(parts, length))
    ends = [-(-length * (number + 1) // parts) for number in range(parts)]
    return [slice(start, end) for start, end in zip([0, *ends], ends)]
