"""The same GPT with each kind of attention: loss and time after the same number of steps.

Article, section 12 ("计算复杂度与优化方向", its table of four solutions). Claims: FlashAttention and ring attention
compute the same function as dense attention, in another order; window and linear attention are other functions to
train instead. (The article says that linear attention approximates softmax with a kernel. With the usual feature map,
elu + 1, it is not an approximation but a replacement, which learns more slowly here.)

    python examples/attention_kinds.py --data shakespeare

trains on Tiny Shakespeare and prints the table of the README; without ``--data`` on Python's own documentation.
All five start from the same weights and train on the same batches. The curves of dense, flash and ring attention are
therefore equal up to rounding. Window attention sees 32 of 128 characters per layer; linear attention has no softmax.

Measured: the loss of the last steps and on validation text, and the CPU time of training, on one thread. A length of
128 is short: the savings of flash, window and linear attention grow with the length (``cost_against_length.py``).
"""

import pathlib
import time

import numpy as np

import tinyattn as ta
from harness import BLUE, GRAY, GREEN, ORANGE, PURPLE, example, fit
from tinyattn.backend import Random
from tinyattn.data import Batches, TextDataset, evaluation_batches
from tinyattn.models import GPT, GPTConfig

KINDS = {"dense": ORANGE, "flash": BLUE, "ring": GRAY, "window": GREEN, "linear": PURPLE}
BLOCK = 128


def train(kind, dataset, steps, batch_size, dim, seed=0):
    """The losses of all steps, the loss on validation text, and the CPU time of training in seconds."""
    ta.manual_seed(seed)
    config = GPTConfig.gpt2(
        vocabulary_size=len(dataset.vocabulary),
        block_size=BLOCK,
        layers=2,
        heads=4,
        dim=dim,
        positions="rotary",
        bias=False,
        activation="gelu",
        attention=kind,
        window=32,
    )
    model = GPT(config)
    batches = Batches(dataset.train, BLOCK, batch_size=batch_size, random=Random(seed))
    started = time.process_time()
    losses = fit(model.parameters(), lambda: model.loss(*batches.draw()), steps, learning_rate=6e-3)
    seconds = time.process_time() - started
    validation = dataset.validation[: 8 * batch_size * BLOCK + 1]
    with ta.no_grad():
        rows = evaluation_batches(validation, BLOCK, batch_size=32)
        loss = np.mean([model.loss(*batch).item() for batch in rows])
    return losses, loss, seconds


@example(
    data={"default": "pydoc", "help": "a text file, pydoc or shakespeare (default: pydoc)"},
    steps={"type": int, "help": "steps of training (default: 200, or 30 with --quick)"},
)
def main(run):
    dataset = TextDataset.load(run.options.data, BLOCK)
    steps = run.options.steps or run.choose(200, 30)
    batch_size, dim = run.choose((8, 64), (2, 32))
    trained = {kind: train(kind, dataset, steps, batch_size, dim) for kind in KINDS}

    baselines = dataset.evaluated().baselines
    unigram = baselines["unigram"]
    last = max(steps // 10, 1)
    print(
        f"{pathlib.Path(run.options.data).name}, {steps} steps of {batch_size} texts of {BLOCK} characters, "
        f"2 blocks of {dim}\n"
    )
    run.print_table(
        ("attention", f"loss, last {last} steps", "validation loss", "CPU seconds", "ms per step"),
        [
            (
                kind,
                f"{np.mean(losses[-last:]):.4f}",
                f"{loss:.4f}",
                f"{seconds:.1f}",
                f"{1000 * seconds / steps:.1f}",
            )
            for kind, (losses, loss, seconds) in trained.items()
        ],
    )
    print(f"\n(counting characters alone: {unigram:.3f}; pairs of them: {baselines['bigram']:.3f})")

    run.say_what_is_missing(
        "which kinds learn more slowly and which steps are cheaper "
        "(it shows that dense, flash and ring follow one curve)"
    )

    dense = trained["dense"]
    for kind in ("flash", "ring"):
        # Rounding differences grow as training goes on.
        assert np.abs(np.subtract(trained[kind][0][:20], dense[0][:20])).max() < 1e-3
        assert abs(trained[kind][1] - dense[1]) < 0.05
    for kind, (losses, loss, _) in trained.items():
        assert loss < losses[0] - 0.5, kind
        if not run.quick:
            assert loss < unigram, kind

    figure, axes = run.figure(1, 1, width=6, height=3.8)
    window = max(steps // 30, 1)
    for kind, color in KINDS.items():
        losses = trained[kind][0]
        smooth = np.convolve(losses, np.ones(window) / window, mode="valid")
        style = "--" if kind in ("flash", "ring") else "-"
        at = np.arange(len(smooth)) + window
        axes.plot(at, smooth, style, color=color, label=kind, linewidth=1.4)
    axes.axhline(unigram, color="black", linewidth=0.7, linestyle=":")
    axes.text(steps, unigram, "counting characters ", ha="right", va="bottom", fontsize=8)
    axes.set(
        title="one GPT, five kinds of attention", xlabel="step", ylabel="loss, nats per character"
    )
    axes.legend()
    run.save(figure)


if __name__ == "__main__":
    main()
