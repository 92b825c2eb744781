"""Communicators for ranks that are threads of one process, with what ring attention uses of the mpi4py interface."""

import contextvars
import queue
import threading
from concurrent.futures import ThreadPoolExecutor

# Seconds that a rank waits for a message, so that a missing one does not block the tests.
TIMEOUT = 2.0


class World:
    """All ranks: ``run(function)`` calls ``function(rank)`` on each, concurrently."""

    def __init__(self, size):
        self.size = size
        self.queues = {
            (source, dest): queue.Queue() for source in range(size) for dest in range(size)
        }
        self.barrier = threading.Barrier(size)
        self.gathered = [None] * size

    def rank(self, rank):
        return Rank(self, rank)

    def run(self, function):
        with ThreadPoolExecutor(self.size) as pool:
            futures = [
                pool.submit(contextvars.copy_context().run, function, rank)
                for rank in range(self.size)
            ]
            return [future.result() for future in futures]


class Rank:
    """The communicator of one rank."""

    def __init__(self, world, rank):
        self._world = world
        self._rank = rank

    def Get_rank(self):
        return self._rank

    def Get_size(self):
        return self._world.size

    def sendrecv(self, message, dest, source):
        self._world.queues[self._rank, dest].put(message)
        return self._world.queues[source, self._rank].get(timeout=TIMEOUT)

    def allgather(self, value):
        world = self._world
        world.gathered[self._rank] = value
        world.barrier.wait(TIMEOUT)
        values = list(world.gathered)
        world.barrier.wait(TIMEOUT)
        return values
