"""What recording and walking one operation costs, beyond its arithmetic."""

import numpy as np

from .race import print_table, race

OPERATIONS = 1000


def start_numpy():
    def start():
        x, y = np.ones((2, 2), np.float32), np.ones((2, 2), np.float32)

        def call():
            z = x
            for _ in range(OPERATIONS):
                z = z + y

        return call

    return start


def tinyattn(record=True, backward=False):
    import tinyattn as ta

    def start():
        x = ta.tensor(np.ones((2, 2), np.float32), requires_grad=True)
        y = ta.tensor(np.ones((2, 2), np.float32), requires_grad=True)

        def call():
            with ta.set_grad_enabled(record):
                z = x
                for _ in range(OPERATIONS):
                    z = z + y
            if backward:
                x.grad = y.grad = None
                z.backward(np.ones((2, 2), np.float32))

        return call

    return start


def torch_eager(record=True, backward=False):
    import torch

    def start():
        torch.set_num_threads(1)
        x, y = torch.ones((2, 2), requires_grad=True), torch.ones((2, 2), requires_grad=True)

        def call():
            with torch.set_grad_enabled(record):
                z = x
                for _ in range(OPERATIONS):
                    z = z + y
            if backward:
                x.grad = y.grad = None
                z.backward(torch.ones((2, 2)))

        return call

    return start


CONTESTANTS = {
    "tinyattn, forward and backward": lambda: tinyattn(backward=True),
    "tinyattn, recorded": tinyattn,
    "tinyattn, not recorded": lambda: tinyattn(record=False),
    "numpy": start_numpy,
    "torch, forward and backward": lambda: torch_eager(backward=True),
    "torch, recorded": torch_eager,
}


def run(quick=False):
    results = race("tape", list(CONTESTANTS), {}, 2 if quick else 5, 5)
    rows = []
    for name, one in results.items():
        if "missing" not in one:
            one["microseconds_per_operation"] = 1e3 * one["median_ms"] / OPERATIONS
            rows.append([name, one["microseconds_per_operation"]])
    print_table("adding two 2 x 2 matrices", ["", "microseconds an operation"], rows)
    return {"results": results}
