"""Data-parallel training with MPI: each process computes a shard of every batch; rank 0 writes the run directory.

``mpiexec -n 2 tinyattn train`` starts the same program twice. Both draw the same weights and batches from the same
random streams, so that only gradients are communicated.
"""

import os
import re
import time

import numpy as np

# Environment variables with the number of processes, set by the launchers of MPI implementations.
_SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS")


class ProcessGroup:
    """The MPI processes that train together; this process alone if there is no communicator.

    Args:
        communicator: an mpi4py communicator, or None.

    >>> alone = ProcessGroup()
    >>> alone.is_first, alone.rows(12)
    (True, slice(0, 12, None))
    """

    def __init__(self, communicator=None):
        self.communicator = communicator
        self.rank = 0 if communicator is None else communicator.Get_rank()
        self.size = 1 if communicator is None else communicator.Get_size()

    @property
    def is_first(self):
        """Whether this is rank 0, which writes the run directory and shows progress."""
        return self.rank == 0

    def rows(self, count):
        """This process's shard of ``count`` rows, a slice."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def broadcast(self, function):
        """Broadcast the result of ``function()`` in rank 0: returns the value itself there, a copy in other ranks."""
        value = function() if self.is_first else None
        copy = value if self.communicator is None else self.communicator.bcast(value)
        return value if self.is_first else copy

    def any(self, flag):
        """Whether ``flag`` is true in any process."""
        return flag if self.communicator is None else self.communicator.allreduce(int(flag)) > 0

    def abort(self, status, report=lambda: None):
        """Terminate all processes, since the others would wait for this one forever.

        Args:
            status: exit status.
            report: prints the error.
        """
        if self.communicator is None:
            return
        if not self.is_first:
            # Rank 0 most likely has the same error, reports it and terminates this process.
            time.sleep(4)
        report()
        # The launcher needs time to forward the output, which it discards when it terminates.
        time.sleep(1)
        self.communicator.Abort(status)
        os._exit(status)  # some implementations return, and terminate this process later


def launched_processes():
    """The processes that an MPI launcher started, or this one alone."""
    sizes = [os.environ.get(name, "") for name in _SIZE_VARIABLES]
    if max(int(size) if re.fullmatch("[0-9]{1,9}", size) else 1 for size in sizes) <= 1:
        return ProcessGroup()
    from mpi4py import MPI

    return ProcessGroup(MPI.COMM_WORLD)


def rank_key(key, rank):
    """The random key (seed) of one process, derived from the key that all processes share.

    >>> rank_key(7, 0), rank_key(7, 1) == rank_key(7, 0)
    (7, False)
    """
    if rank == 0:
        return key
    return int(np.random.SeedSequence([key, rank]).generate_state(1, np.uint64)[0])
