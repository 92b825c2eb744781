"""MPI: one run on several processes, each of which computes a share of every batch; the first one writes.

``mpiexec -n 2 tinyattn train`` starts the same program twice. Both draw the same weights and the same batches from the
same streams, so that only gradients are sent.
"""

import os
import re
import time

import numpy as np

# Set by the launchers of MPI implementations to the number of processes.
_SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS")


class Processes:
    """The MPI processes that train together; without a communicator, this process alone.

    Args:
        communicator: an mpi4py communicator, or None.

    >>> alone = Processes()
    >>> alone.is_first, alone.rows(12)
    (True, slice(0, 12, None))
    """

    def __init__(self, communicator=None):
        self.communicator = communicator
        self.rank = 0 if communicator is None else communicator.Get_rank()
        self.size = 1 if communicator is None else communicator.Get_size()

    @property
    def is_first(self):
        """Whether this is the process that writes and shows."""
        return self.rank == 0

    def rows(self, count):
        """This process's share of ``count`` rows, a slice; together the slices cover all."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def from_first(self, function):
        """``function()`` of the first process, in every one: there the value itself, elsewhere a copy."""
        value = function() if self.is_first else None
        copy = value if self.communicator is None else self.communicator.bcast(value)
        return value if self.is_first else copy

    def any(self, flag):
        """Whether ``flag`` holds in any process."""
        return flag if self.communicator is None else self.communicator.allreduce(int(flag)) > 0

    def abort(self, status):
        """End all processes: the others would wait for this one for ever."""
        if self.communicator is None:
            return
        # The first process most likely has the same error and reports it; and the launcher needs a moment to
        # pass on the output, which it discards when it ends the processes.
        time.sleep(1 if self.is_first else 5)
        self.communicator.Abort(status)
        os._exit(status)  # some implementations return, and end this process a little later


def launched_processes():
    """The processes that an MPI launcher started together with this one, or this one alone."""
    sizes = [os.environ.get(name, "") for name in _SIZE_VARIABLES]
    if max(int(size) if re.fullmatch("[0-9]{1,9}", size) else 1 for size in sizes) <= 1:
        return Processes()
    from mpi4py import MPI

    return Processes(MPI.COMM_WORLD)


def rank_key(key, rank):
    """The key for random draws of one process, from the key that all have in common.

    >>> rank_key(7, 0), rank_key(7, 1) == rank_key(7, 0)
    (7, False)
    """
    if rank == 0:
        return key
    return int(np.random.SeedSequence([key, rank]).generate_state(1, np.uint64)[0])
