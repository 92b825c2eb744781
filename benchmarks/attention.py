"""Causal attention, forward and backward, from short to long sequences, against PyTorch's SDPA."""

import numpy as np

from .race import print_table, race

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
HEAD_DIM = 64


def heads_for(length):
    """The number of heads, for a similar amount of work at each length; one at 16384, where memory is of interest."""
    return 1 if length == max(LENGTHS) else max(2, min(64, 2**25 // length**2))


def draw(heads, length):
    random = np.random.default_rng(0)
    shape = (1, heads, length, HEAD_DIM)
    return [random.standard_normal(shape, dtype=np.float32) for _ in range(4)]


def tinyattn():
    import tinyattn as ta
    from tinyattn.train.parallel import ThreadExecutor, available_cores
    from tinyattn.train.parallel.executor import shards

    def start(heads, length):
        executor = ThreadExecutor(model=None, workers=available_cores())
        parts = []  # shards on threads, as in training
        for part in shards(heads, executor.workers):
            *leaves, cotangent = (ta.tensor(array[:, part]) for array in draw(heads, length))
            for leaf in leaves:
                leaf.requires_grad = True
            parts.append((leaves, cotangent))

        def attend(part):
            leaves, cotangent = part
            for leaf in leaves:
                leaf.grad = None
            ta.scaled_dot_product_attention(*leaves, causal=True).backward(cotangent)

        return lambda: executor.for_each(attend, parts)

    return start


def torch_sdpa():
    import torch

    def start(heads, length):
        *leaves, cotangent = (torch.from_numpy(array) for array in draw(heads, length))
        for leaf in leaves:
            leaf.requires_grad_()

        def call():
            for leaf in leaves:
                leaf.grad = None
            out = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=True)
            out.backward(cotangent)

        return call

    return start


CONTESTANTS = {"tinyattn": tinyattn, "torch_sdpa": torch_sdpa}


def run(quick=False):
    result, rows = {"lengths": {}}, []
    for length in LENGTHS[:5] if quick else LENGTHS:
        options = {"heads": heads_for(length), "length": length}
        rounds, calls = (2, 2) if quick or length > 4096 else (4, 5)
        if length > 8192:
            rounds, calls = 1, 1
        results = race("attention", list(CONTESTANTS), options, rounds, calls)
        result["lengths"][length] = {"options": options, "results": results}
        own, peer = results["tinyattn"], results["torch_sdpa"]
        rows.append(
            [
                length,
                options["heads"],
                own["median_ms"],
                peer.get("median_ms"),
                peer.get("ratio"),
                own["peak_mb_over_imports"],
                peer.get("peak_mb_over_imports"),
            ]
        )
        print(f"  length {length}: {own['median_ms']:.3g} ms, PyTorch {peer.get('median_ms', '-')}")
    header = ["length", "heads", "tinyattn ms", "torch ms", "ratio", "tinyattn MB", "torch MB"]
    print_table("causal attention, forward and backward, heads of 64", header, rows)
    return result
