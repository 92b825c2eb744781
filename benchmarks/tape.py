"""Overhead of recording and differentiating one operation, beyond its arithmetic."""

import numpy as np

from .race import print_table, race

OPERATIONS = 1000


def add_repeatedly(x, y):
    for _ in range(OPERATIONS):
        x = x + y
    return x


def numpy():
    ones = np.ones((2, 2), np.float32)
    return lambda: lambda: add_repeatedly(ones, ones)


def tinyattn(**options):
    import tinyattn as ta

    return recorded(ta, **options)


def torch(**options):
    import torch

    torch.set_num_threads(1)
    return recorded(torch, **options)


def recorded(library, record=True, backward=False):
    """A contestant that adds tensors of ``library``; both libraries have the same names for this."""

    def start():
        x, y = (library.ones((2, 2), requires_grad=True) for _ in range(2))

        def call():
            with library.set_grad_enabled(record):
                z = add_repeatedly(x, y)
            if backward:
                x.grad = y.grad = None
                z.backward(library.ones((2, 2)))

        return call

    return start


CONTESTANTS = {
    "tinyattn, forward and backward": lambda: tinyattn(backward=True),
    "tinyattn, recorded": tinyattn,
    "tinyattn, not recorded": lambda: tinyattn(record=False),
    "numpy": numpy,
    "torch, forward and backward": lambda: torch(backward=True),
    "torch, recorded": torch,
}


def run(quick=False):
    results = race("tape", list(CONTESTANTS), {}, 2 if quick else 5, 5)
    rows = []
    for name, result in results.items():
        if "missing" not in result:
            result["microseconds_per_operation"] = 1e3 * result["median_ms"] / OPERATIONS
            rows.append([name, result["microseconds_per_operation"]])
    print_table("adding two 2 x 2 matrices", ["", "microseconds per operation"], rows)
    return {"results": results}
