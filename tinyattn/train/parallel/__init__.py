"""Executors share the work of a training step among workers; one is chosen when training starts.

======================  ==============================================================
``SerialExecutor``      one worker: the calling thread
``ThreadExecutor``      threads, which share one GIL
``ForkExecutor``        forked worker processes, each with its own GIL (Linux)
======================  ==============================================================

All give the same results to the last bit for the same number of workers. ``train/step.py`` shards a batch among the
workers, ``Optimizer.step(executor)`` the parameter updates, and ``Executor.map`` the batches of an evaluation. MPI
processes (``mpi.py``) each have an executor of their own.
"""

from . import forks
from .cores import available_cores
from .executor import Executor
from .forks import ForkExecutor, WorkerError
from .serial import SerialExecutor
from .threads import ThreadExecutor

__all__ = [
    "Executor",
    "ForkExecutor",
    "SerialExecutor",
    "ThreadExecutor",
    "WorkerError",
    "available_cores",
    "make_executor",
]


def make_executor(model, workers=None, communicator=None):
    """The fastest executor that this process can use; ``executor.fallback`` says why it is not ``ForkExecutor``.

    Args:
        model: a module. On a GPU there is one worker.
        workers: their number; ``available_cores()`` by default.
        communicator: of the MPI processes that train together, or None.

    Raises:
        ValueError: for fewer than one worker.

    >>> import tinyattn as ta
    >>> executor = make_executor(ta.nn.Linear(2, 3), workers=2)
    >>> executor.map(_shape, [0, 1, 2])
    [((2, 3), 0), ((2, 3), 1), ((2, 3), 2)]
    >>> executor.close()
    """
    workers = available_cores() if workers is None else workers
    if workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    if workers == 1 or model.device not in ("cpu", None):
        return SerialExecutor(model)
    fallback = forks.unavailable() if communicator is None else "MPI processes must not fork"
    if fallback is None:
        return ForkExecutor(model, workers)
    return ThreadExecutor(model, workers, fallback)


def _shape(model, item):
    return model.weight.shape, item
