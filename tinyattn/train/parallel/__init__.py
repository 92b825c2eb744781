"""Executors: run the work of a training step serially, in a thread pool, or in forked worker processes.

======================  ==============================================================
``SerialExecutor``      one worker: the calling thread
``ThreadExecutor``      threads, which share one GIL
``ForkExecutor``        forked worker processes, each with its own GIL (Linux)
======================  ==============================================================

``make_executor`` chooses one when training starts. For the same number of workers, all executors give bit-identical
results.

``train/step.py`` shards a batch among the workers, ``Optimizer.step(executor)`` the parameter updates, and
``Executor.map`` the batches of an evaluation. With MPI (``mpi.py``), each process has its own executor.
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
    """Make the fastest executor available; ``executor.fallback`` says why threads are used if processes cannot be.

    Args:
        model: a module. On a GPU there is one worker.
        workers: number of workers; ``available_cores()`` by default.
        communicator: an MPI communicator, or None. MPI processes do not fork: their workers are threads.

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


def _shape(model, item):  # for the doctest: worker processes need a module-level function
    return model.weight.shape, item
