"""The executor interface."""

from .cores import available_cores


class Executor:
    """Calls functions on a model in several workers; the calling thread is the first of them.

    During a call, BLAS is limited to one thread per worker, or to the available cores for a single worker.

    Args:
        model: a module.
        workers: number of workers.

    Attributes:
        model, workers: as given.
        fallback: a message for the user that says why a slower executor was chosen; None if it was not.
    """

    fallback = None

    def __init__(self, model, workers):
        self.model = model
        self.workers = workers
        self.blas_threads = 1 if workers > 1 else available_cores()

    def run(self, function, items, receive):
        """Call ``function(model, item)`` for each item, the first in this thread and each other one in its own worker.

        Args:
            function: picklable (a module-level function). Returns ``(value, gradients)``: a picklable object, and a
                dict ``{parameter: array}``.
            items: picklable objects, at most one per worker.
            receive: called in this thread with each result, in the order of the items, while later ones are computed.
                Arrays in a result may be overwritten by the next call.

        Raises:
            Exception: the first error in the order of the items, after the calls in all workers have ended.
        """
        raise NotImplementedError

    def for_each(self, function, items):
        """Call ``function(item)`` for each item in any free worker; the calls must write to different arrays.

        Args:
            function: picklable (a module-level function, or a partial of one).
            items: a list of picklable objects.

        Raises:
            Exception: as ``run``.
        """
        raise NotImplementedError

    def map(self, function, items):
        """``[function(model, item) for item in items]``, shared among the workers.

        Args:
            function: as for ``run``, but returns only a value. Its draws from the default random stream are not
                reproducible with worker processes.
        """
        parts = [(function, items[rows]) for rows in shards(len(items), self.workers)]
        results = []
        self.run(_values, parts, lambda result: results.extend(result[0]))
        return results

    def share(self, optimizer):
        """Move the arrays of an optimizer to memory that all workers can write to; does nothing unless workers fork."""

    def close(self):
        """Stop the workers; a later call starts new ones."""


def _values(model, part):
    """``map`` for one worker: the values of its items, and no gradients."""
    function, items = part
    return [function(model, item) for item in items], {}


def shards(length, parts):
    """Slices that split ``length`` rows into ``parts`` of nearly equal size, or into single rows if there are fewer.

    >>> shards(5, 2), shards(1, 4)
    ([slice(0, 3, None), slice(3, 5, None)], [slice(0, 1, None)])
    """
    parts = max(1, min(parts, length))
    ends = [-(-length * (number + 1) // parts) for number in range(parts)]
    return [slice(start, end) for start, end in zip([0, *ends], ends)]
