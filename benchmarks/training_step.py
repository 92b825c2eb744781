"""A training step of GPT at nanoGPT's two sizes: forward, backward, clipping, AdamW."""

import numpy as np

from .machine import sgemm_peak
from .race import print_table, race

SIZES = {
    "small": {"layers": 4, "heads": 4, "dim": 128, "block_size": 64, "batch": 12},
    "large": {"layers": 6, "heads": 6, "dim": 384, "block_size": 256, "batch": 64},
}


def draw_batch(batch, block_size):
    random = np.random.default_rng(0)
    ids = random.integers(0, 65, (batch, block_size + 1))
    return ids[:, :-1].copy(), ids[:, 1:].copy()


def tinyattn():
    import tinyattn as ta
    from tinyattn.optim import AdamW, clip_grad_norm, weight_decay_groups
    from tinyattn.train.parallel import make_executor
    from tinyattn.train.step import BatchStep

    def start(layers, heads, dim, block_size, batch):
        ta.manual_seed(0)
        config = ta.models.GPTConfig.gpt2(
            vocabulary_size=65, block_size=block_size, layers=layers, heads=heads, dim=dim
        )
        model = ta.models.GPT(config)
        named = model.named_parameters()
        optimizer = AdamW(weight_decay_groups(named, 0.1), lr=1e-3, betas=(0.9, 0.99))
        executor = make_executor(model)
        step = BatchStep(executor, [optimizer])
        ids, targets = draw_batch(batch, block_size)

        def call():
            step(ids, targets, key=0)
            clip_grad_norm(step.parameters, 1.0)
            optimizer.step(executor)

        return call

    return start


def torch_eager(compiled=False):
    import torch

    from .peers import torch_gpt

    def start(layers, heads, dim, block_size, batch):
        torch.manual_seed(0)
        model = torch_gpt.GPT(layers, heads, dim, block_size)
        forward = torch.compile(model.loss) if compiled else None
        step = torch_gpt.training_step(model, torch_gpt.optimizer_of(model), forward)
        ids, targets = (torch.from_numpy(array) for array in draw_batch(batch, block_size))
        return lambda: step(ids, targets)

    return start


def torch_compiled():
    return torch_eager(compiled=True)


def jax():
    import jax
    import jax.numpy as jnp

    from .peers import jax_gpt

    def start(layers, heads, dim, block_size, batch):
        step = jax_gpt.make_step(layers, heads)
        parameters = jax_gpt.make_parameters(layers, dim, block_size)
        moments = {n: (jnp.zeros_like(p), jnp.zeros_like(p)) for n, p in parameters.items()}
        ids, targets = (jnp.asarray(array) for array in draw_batch(batch, block_size))
        state = [parameters, moments, 1]

        def call():
            parameters, moments, number = state
            parameters, moments, loss = step(parameters, moments, number, ids, targets)
            jax.block_until_ready(loss)
            state[:] = [parameters, moments, number + 1]

        return call

    return start


CONTESTANTS = {
    "tinyattn": tinyattn,
    "torch_eager": torch_eager,
    "torch_compiled": torch_compiled,
    "jax": jax,
}


def floating_point_operations(layers, heads, dim, block_size, batch):
    """GFLOP of the matrix products of a step: three times the forward pass; a causal mask halves attention."""
    tokens = batch * block_size
    linear = layers * 12 * dim * dim + dim * 65
    attention = layers * block_size * dim  # scores and weighted sums, half of them masked
    return 3 * 2 * tokens * (linear + attention) / 1e9


def run(quick=False):
    result = {"sgemm_peak_gflops": sgemm_peak(), "sizes": {}}
    for size, options in SIZES.items():
        rounds, calls = (5, 20) if size == "small" else (3, 1)
        if quick:
            rounds, calls = (3, 8) if size == "small" else (1, 1)
            options = options if size == "small" else {**options, "batch": 8}
        print(f"{size}: {options}")
        results = race("training_step", list(CONTESTANTS), options, rounds, calls)
        work = floating_point_operations(**options)
        for one in results.values():
            if "missing" not in one:
                one["share_of_peak"] = work / one["median_ms"] * 1e3 / result["sgemm_peak_gflops"]
        result["sizes"][size] = {"options": options, "gflop": work, "results": results}
        columns = ("median_ms", "fastest_ms", "ratio", "share_of_peak", "peak_mb_over_imports")
        print_table(
            f"a training step, {size}; ratio: tinyattn's median over the peer's; memory in MB above the imports",
            ["", *columns],
            [[name, *(one.get(column) for column in columns)] for name, one in results.items()],
        )
    return result
