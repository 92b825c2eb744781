"""nanoGPT's recipe for the CPU of a laptop as a complete PyTorch program; prints the validation loss.

As in nanoGPT, it evaluates every 250 steps, on 20 batches of each split. The printed loss is that of the complete
validation split.
"""

import math
import sys

import torch

from . import torch_gpt

LAYERS, HEADS, DIM, BLOCK_SIZE, BATCH = 4, 4, 128, 64, 12
WARMUP, RATE, LOWEST_RATE = 100, 1e-3, 1e-4


def draw(ids):
    starts = torch.randint(len(ids) - BLOCK_SIZE, (BATCH,))
    windows = torch.stack([ids[start : start + BLOCK_SIZE + 1] for start in starts])
    return windows[:, :-1], windows[:, 1:]


def learning_rate(step, steps):
    if step < WARMUP:
        return RATE * (step + 1) / (WARMUP + 1)
    share = (step - WARMUP) / max(1, steps - WARMUP)
    return LOWEST_RATE + 0.5 * (1 + math.cos(math.pi * share)) * (RATE - LOWEST_RATE)


@torch.inference_mode()
def whole_loss(model, ids):
    """The loss over consecutive windows."""
    count = (len(ids) - 1) // BLOCK_SIZE
    inputs = ids[: count * BLOCK_SIZE].view(count, BLOCK_SIZE)
    targets = ids[1 : count * BLOCK_SIZE + 1].view(count, BLOCK_SIZE)
    parts = zip(inputs.split(64), targets.split(64), strict=True)
    return sum(model.loss(x, y).item() * len(x) for x, y in parts) / count


def main(path, steps):
    torch.manual_seed(1337)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    places = {character: place for place, character in enumerate(sorted(set(text)))}
    ids = torch.tensor([places[character] for character in text])
    border = int(0.9 * len(ids))
    training, validation = ids[:border], ids[border:]
    model = torch_gpt.GPT(LAYERS, HEADS, DIM, BLOCK_SIZE, len(places))
    optimizer = torch_gpt.optimizer_of(model)
    step = torch_gpt.training_step(model, optimizer)
    for number in range(steps):
        if number % 250 == 0:
            with torch.inference_mode():
                for part in (training, validation):
                    [model.loss(*draw(part)).item() for _ in range(20)]
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(number, steps)
        step(*draw(training))
    print(f"validation loss {whole_loss(model, validation):.4f}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
