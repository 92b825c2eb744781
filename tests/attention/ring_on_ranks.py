"""The program of one rank in the MPI tests: ``mpiexec -n 4 python ring_on_ranks.py equal|die``."""

import os
import pathlib
import signal
import sys

import numpy as np
from mpi4py import MPI

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

import tinyattn as ta
from tinyattn.attention.ring import split_sequence


def largest_error(layout, causal, length=37):
    """Compare this rank's part of the ring with its rows of dense attention, forward and backward."""
    random = np.random.default_rng(0)  # the same numbers on every rank
    arrays = random.standard_normal((4, 2, length, 8))
    world = MPI.COMM_WORLD
    q, k, v, g = (ta.tensor(array, requires_grad=True) for array in arrays)
    dense = ta.scaled_dot_product_attention(q, k, v, kind="dense", causal=causal)
    dense.backward(g.detach())

    parts = [split_sequence(ta.tensor(array), world, layout)[0] for array in arrays]
    for part in parts:
        part.requires_grad = True
    out = ta.scaled_dot_product_attention(
        *parts[:3], kind="ring", causal=causal, communicator=world, layout=layout
    )
    out.backward(parts[3].detach())
    _, positions = split_sequence(q, world, layout)
    own = positions[world.Get_rank()]
    pairs = [(out, dense.numpy())] + [
        (part.grad, whole.grad.numpy()) for part, whole in zip(parts[:3], (q, k, v), strict=True)
    ]
    return max(np.abs(part.numpy() - whole[..., own, :]).max() for part, whole in pairs)


def main():
    world = MPI.COMM_WORLD
    if sys.argv[1] == "die":
        if world.Get_rank() == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        largest_error("zigzag", True)
        world.Barrier()
    for layout in ("contiguous", "zigzag"):
        for causal in (False, True):
            error = world.reduce(largest_error(layout, causal), op=MPI.MAX)
            if world.Get_rank() == 0:
                print(f"{layout} causal={causal} error {error}")


main()
