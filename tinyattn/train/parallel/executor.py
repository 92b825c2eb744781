"""The interface of executors."""

from .cores import available_cores


class Executor:
    """Calls functions on a model with several workers, of which the calling thread is the first.

    BLAS is limited to one thread a worker meanwhile, or to the available cores for a single worker.

    Args:
        model: a module.
        workers: their number.

    Attributes:
        model, workers: as given.
        fallback: why workers are not processes, for the user; None where nothing faster was possible or asked for.
    """

    fallback = None

    def __init__(self, model, workers):
        self.model = model
        self.workers = workers
        self.blas_threads = 1 if workers > 1 else available_cores()

    def run(self, function, items, receive):
        """Call ``function(model, item)`` for each item, the first here and each of the others by another worker.

        Args:
            function: defined in a module, so that it can be sent to a process. Returns ``(value, gradients)``: what
                can be pickled, and a dict ``{parameter: array}``.
            items: at most as many as there are workers; what can be pickled.
            receive: called in this thread with each result, in the order of the items, while later ones are computed.
                Arrays in it may be overwritten by the next call.

        Raises:
            Exception: the first error in the order of the items, after all workers have stopped.
        """
        raise NotImplementedError

    def for_each(self, function, items):
        """Call ``function(item)`` for each item, by whichever worker is free; the calls write to different places.

        Args:
            function: defined in a module, or a partial of such a function.
            items: a list of what can be pickled.

        Raises:
            Exception: as ``run``.
        """
        raise NotImplementedError

    def map(self, function, items):
        """``[function(model, item) for item in items]``, shared among the workers.

        Args:
            function: as for ``run``, but returns a value only. What it draws from the default random stream is not
                reproducible with worker processes.
        """
        parts = [(function, items[rows]) for rows in shards(len(items), self.workers)]
        results = []
        self.run(_values, parts, lambda result: results.extend(result[0]))
        return results

    def share(self, optimizer):
        """Make the arrays of an optimizer writable for all workers; its parameters belong to the model."""

    def close(self):
        """End the workers; a later call starts new ones."""


def _values(model, part):
    function, items = part
    return [function(model, item) for item in items], {}


def shards(length, parts):
    """Slices that cut ``length`` rows into ``parts`` nearly equal ones, or into as many as there are rows.

    >>> shards(5, 2), shards(1, 4)
    ([slice(0, 3, None), slice(3, 5, None)], [slice(0, 1, None)])
    """
    parts = max(1, min(parts, length))
    ends = [-(-length * (number + 1) // parts) for number in range(parts)]
    return [slice(start, end) for start, end in zip([0, *ends], ends)]
