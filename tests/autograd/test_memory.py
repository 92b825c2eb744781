"""Memory over many steps with the garbage collector disabled: reference counting must free everything."""

import gc
import sys

import numpy as np

import tinyattn as ta
from tinyattn import models, optim


def test_1000_training_steps_without_the_garbage_collector_keep_memory_flat():
    ta.manual_seed(0)
    config = models.GPTConfig.gpt2(
        vocabulary_size=5, block_size=4, layers=1, heads=2, dim=4, dropout=0.1
    )
    model = models.GPT(config)
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    ids = ta.tensor(np.random.default_rng(0).integers(0, 5, (2, 5)))
    inputs, targets = ids[:, :-1], ids[:, 1:]

    def steps(count):
        for _ in range(count):
            for parameter in model.parameters():
                parameter.grad = None
            loss = model.loss(inputs, targets)
            loss.backward()
            optim.clip_grad_norm(model.parameters(), 1.0)
            optimizer.step()
        return loss.item()

    first = steps(20)  # caches fill, and optimizer states are made
    gc.collect()
    gc.disable()
    try:
        steps(10)
        objects, blocks = len(gc.get_objects()), sys.getallocatedblocks()
        last = steps(1000)
        more_objects = len(gc.get_objects()) - objects
        more_blocks = sys.getallocatedblocks() - blocks
    finally:
        gc.enable()
    assert last < first
    # A step makes over a hundred arrays and nodes. Python itself keeps tuples for later use, 2000 of each length.
    assert more_objects < 100, f"{more_objects} objects are left over from 1000 steps"
    assert more_blocks < 20_000, f"{more_blocks} pieces of memory are left over from 1000 steps"
