"""Attention weights depend on the input: the same parameters route each text differently.

Article, section 10 ("从直觉到本质：Self-Attention 是什么？") and section 11 ("常见误解澄清", the third). Claims:
other layers mix with weights that are fixed after training, attention with weights that depend on the input: a soft,
differentiable read from a content-addressed memory. And: every visible position contributes, also those with small
weights.

The task is such a read. Four tokens, each with a name (of 4) and a content (of 8), are in random order; the last token
asks for one of the names, and its content is the answer. Two models that differ only in how tokens are mixed: by
attention, or by a learned matrix of weights that does not depend on the input.

Measured: accuracy after training; the distance between the weights for two inputs, relative to the largest possible
distance of two rows; and the change of the outputs of an untrained and of the trained layer if all weights below an
even share are removed. (It is small for the trained layer, which has learned to give these weights nothing: all
positions contribute, but this says nothing about how much.)
"""

import numpy as np

import tinyattn as ta
from harness import BLUE, ORANGE, example, fit_classifier
from tinyattn import nn

NAMES, CONTENTS = 4, 8
LENGTH = NAMES + 1


class Reader(nn.Module):
    """Embedding, mixing of tokens ("attention" or "fixed"), and a linear readout of the last position."""

    def __init__(self, mixing, dim=32):
        self.mixing = mixing
        self.embedding = nn.Embedding(NAMES * CONTENTS + NAMES, dim)  # tokens, then questions
        self.query, self.key, self.value = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.fixed = nn.Parameter(np.zeros((LENGTH, LENGTH), np.float32))
        self.readout = nn.Linear(dim, CONTENTS)

    def weights(self, tokens):
        """Weights (..., LENGTH, LENGTH), computed from the tokens or fixed."""
        if self.mixing == "fixed":
            return ta.softmax(self.fixed)
        x = self.embedding(tokens)
        return ta.softmax(self.query(x) @ self.key(x).mT * x.shape[-1] ** -0.5)

    def forward(self, tokens):
        mixed = self.weights(tokens) @ self.value(self.embedding(tokens))
        return self.readout(mixed[..., -1, :])


def draw_batch(random, count):
    """Tokens (count, LENGTH), the question last, and the contents it asks for."""
    names = random.permuted(np.tile(np.arange(NAMES), (count, 1)), axis=1)
    contents = random.integers(0, CONTENTS, (count, NAMES))  # by position
    asked = random.integers(0, NAMES, count)
    tokens = np.concatenate(
        [names * CONTENTS + contents, NAMES * CONTENTS + asked[:, None]], axis=1
    )
    return tokens, contents[names == asked[:, None]]


def train(mixing, steps, seed=0):
    """The trained reader, and its accuracy."""
    ta.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = Reader(mixing)

    def draw(count):
        tokens, answer = draw_batch(random, count)
        return model(tokens), answer

    return model, fit_classifier(model, draw, steps, 2e-2, batch_size=64, test_size=2000).mean()


def share_of_small_weights(model, tokens):
    """The fraction of weights below an even share, their sum in a row, and the change of the output without them."""
    small = 1 / LENGTH
    with ta.no_grad():
        weights = model.weights(tokens).numpy()
        values = model.value(model.embedding(tokens)).numpy()
    assert (weights > 0).all()
    kept = np.where(weights < small, 0, weights)
    out = weights @ values
    change = np.linalg.norm(out - kept @ values) / np.linalg.norm(out)
    return (weights < small).mean(), (weights - kept).sum(axis=-1).mean(), change


def two_questions(model):
    """Tokens and weights for two questions to one memory, and one question to the memory in another order."""
    memory = np.arange(NAMES) * CONTENTS + np.arange(NAMES)
    ask = NAMES * CONTENTS
    tokens = np.stack([[*memory, ask + 0], [*memory, ask + 2], [*memory[::-1], ask + 0]])
    with ta.no_grad():
        weights = np.broadcast_to(model.weights(tokens).numpy(), (3, LENGTH, LENGTH))
    return tokens, weights


@example
def main(run):
    steps = run.choose(600, 250)
    models, right = {}, {}
    for mixing in ("attention", "fixed"):
        models[mixing], right[mixing] = train(mixing, steps)
    print("accuracy:", ", ".join(f"{name} {value:.3f}" for name, value in right.items()))

    tokens, weights = two_questions(models["attention"])
    _, fixed = two_questions(models["fixed"])
    distance = 0.5 * np.abs(weights[0, -1] - weights[1, -1]).sum()
    print(
        f"\ntwo questions, same memory: distance of the rows of weights {distance:.3f} of the largest"
    )
    for name, row in zip(
        ("asks name 0", "asks name 2", "asks name 0, order reversed"), weights[:, -1]
    ):
        print(f"  {name:28} {row.round(3)}")

    ta.manual_seed(0)
    sample, _ = draw_batch(np.random.default_rng(1), 500)
    untrained = Reader("attention")
    shares = {
        "untrained": share_of_small_weights(untrained, sample),
        "trained": share_of_small_weights(models["attention"], sample),
    }
    print("\nall weights are positive; without those below an even share:\n")
    run.print_table(
        ("", "share of the weights", "their sum in a row", "change of the output"),
        [(name, *(f"{value:.3f}" for value in values)) for name, values in shares.items()],
    )

    assert right["attention"] > 0.95
    assert right["fixed"] < 0.6
    assert distance > 0.8
    assert np.abs(fixed - fixed[0]).max() == 0
    assert shares["untrained"][2] > 0.1
    assert shares["trained"][2] > 1e-3

    figure, (left, right_panel) = run.figure(1, 2, width=4.6, height=2.6)
    rows = weights[:, -1]
    left.imshow(rows, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (row, column), weight in np.ndenumerate(rows):
        token = tokens[row, column]
        name = (
            "ABCD"[token // CONTENTS] if column < NAMES else f"{'ABCD'[token - NAMES * CONTENTS]}?"
        )
        shade = "white" if weight > 0.6 else "black"
        text = f"{name}\n{weight:.2f}"
        left.text(column, row, text, ha="center", va="center", color=shade)
    left.set_yticks(range(3), ("asks for A", "asks for C", "other order"))
    left.set(title="the same parameters, three inputs", xticks=[])
    left.grid(False)
    right_panel.bar(list(right), list(right.values()), 0.5, color=(BLUE, ORANGE))
    right_panel.axhline(1 / CONTENTS, linestyle="--", color="gray")
    right_panel.set(title="accuracy (dashed: chance)", ylim=(0, 1.05), yticks=(0, 0.5, 1))
    run.save(figure)


if __name__ == "__main__":
    main()
