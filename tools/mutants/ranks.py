"""Communicators of ranks that are threads of this process: what ring attention uses of mpi4py, and no more."""

import contextvars
import queue
import threading
from concurrent.futures import ThreadPoolExecutor

PATIENCE = 2.0  # seconds that a rank waits for another: a message that nobody sends must not hang the tests


class World:
    """All ranks together: ``run(function)`` calls ``function(rank)`` on each, side by side."""

    def __init__(self, size):
        self.size = size
        self.mail = {
            (source, dest): queue.Queue() for source in range(size) for dest in range(size)
        }
        self.meeting = threading.Barrier(size)
        self.board = [None] * size

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
    """What one rank sees."""

    def __init__(self, world, rank):
        self._world = world
        self._rank = rank

    def Get_rank(self):
        return self._rank

    def Get_size(self):
        return self._world.size

    def sendrecv(self, message, dest, source):
        self._world.mail[self._rank, dest].put(message)
        return self._world.mail[source, self._rank].get(timeout=PATIENCE)

    def allgather(self, value):
        world = self._world
        world.board[self._rank] = value
        world.meeting.wait(PATIENCE)
        values = list(world.board)
        world.meeting.wait(PATIENCE)
        return values
