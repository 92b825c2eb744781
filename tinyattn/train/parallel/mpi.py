"""One run on several processes: each computes a share of every batch, and the first writes.

``mpiexec -n 2 tinyattn train`` starts the same program twice. Both draw the same weights and the same
batches from the same streams, so that nothing but gradients has to be sent.
"""

import os
import time

import numpy as np

# What the launchers of the MPI implementations tell a process about how many there are.
_SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS")


class Processes:
    """The processes that train together; without a communicator, this one alone.

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
        """``function()`` of the first process, in every one."""
        value = function() if self.is_first else None
        return value if self.communicator is None else self.communicator.bcast(value)

    def any(self, flag):
        """Whether ``flag`` holds in any process."""
        return flag if self.communicator is None else self.communicator.allreduce(int(flag)) > 0

    def abort(self, status):
        """End all processes: the others would wait for this one for ever."""
        if self.communicator is None:
            return
        # The first has most likely met the same error and is the one to tell it; and the launcher needs a
        # moment to pass on what was told, which it drops when it ends the processes.
        time.sleep(1 if self.is_first else 5)
        self.communicator.Abort(status)
        os._exit(status)  # some implementations return, and end this process a little later


def launched_processes():
    """The processes that an MPI launcher started together with this one, or this one alone."""
    sizes = [int(os.environ[name]) for name in _SIZE_VARIABLES if name in os.environ]
    if max(sizes, default=1) == 1:
        return Processes()
    from mpi4py import MPI

    return Processes(MPI.COMM_WORLD)


def shared_key(key, rank):
    """A key for random draws that differs between processes.

    >>> shared_key(7, 0), shared_key(7, 1) == shared_key(7, 0)
    (7, False)
    """
    if rank == 0:
        return key
    return int(np.random.SeedSequence([key, rank]).generate_state(1, np.uint64)[0])
