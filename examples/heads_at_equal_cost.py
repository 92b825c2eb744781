"""Several heads cost as much as one, and can attend to several positions at once.

Article, section 8 ("Multi-Head Attention：多个子空间并行"), and question 6 of section 13. Claims: h heads of d/h
dimensions have the parameters and nearly the arithmetic of one head of d; yet the model can follow several relations.

Measured: parameters, and multiplications counted from the shapes of all matrix products of a layer, which are equal;
only the softmax grows with h: h n^2 exponentials. The time of the forward and backward pass is printed, and depends on
the machine. Then a task with two relations: predict the previous token and the token three before, each with a linear
layer. One head has one distribution for both, so it mixes the two tokens or attends to one of them; two heads of half
the size separate them. (With a feed-forward layer after it, one head could solve the task, too, by giving the tokens
different weights and decoding their sum. Without one, a single head cannot separate them.)
"""

import time

import numpy as np

import tinyattn as ta
from harness import BLUE, ORANGE, example, fit_classifier
from tinyattn import nn

HEADS = (1, 2, 4)
TOKENS, LENGTH, DISTANCES = 8, 12, (1, 3)


def cost(heads, dim=64, length=64):
    """Parameters, multiplications, exponentials and milliseconds of a layer of attention at batch 8."""
    ta.manual_seed(0)
    layer = nn.MultiHeadAttention(dim, heads)
    x = ta.tensor(np.random.default_rng(0).standard_normal((length, dim)), dtype=np.float32)
    # From the actual shapes: projections, then scores and weighted sums of each head.
    projections = (layer.query, layer.key, layer.value, layer.project)
    products = sum(length * linear.in_features * linear.out_features for linear in projections)
    with ta.no_grad(), layer.record("weights") as record:
        layer(x)
    weights = record["weights"].value  # (heads, length, length)
    products += 2 * weights.size * layer.head_dim  # Q K^T and P V
    batch = ta.tensor(np.tile(x.numpy(), (8, 1, 1)))
    times = []
    for _ in range(5):
        started = time.perf_counter()
        layer(batch).sum().backward()
        times.append(time.perf_counter() - started)
    return layer.parameter_count(), products, weights.size, 1000 * min(times)


class TwoRelations(nn.Module):
    """One layer of causal attention over tokens and positions, and a linear readout for each relation."""

    def __init__(self, heads, dim=32):
        self.embedding = nn.Embedding(TOKENS, dim)
        self.positions = nn.LearnedPositions(LENGTH, dim)
        self.attention = nn.MultiHeadAttention(dim, heads, causal=True)
        self.readout = nn.Linear(dim, len(DISTANCES) * TOKENS)

    def forward(self, tokens):
        """Logits (..., length, relations, tokens)."""
        x = self.attention(self.positions(self.embedding(tokens)))
        return self.readout(x).reshape(*tokens.shape, len(DISTANCES), TOKENS)


def train(heads, steps, seed=0):
    """The trained model, and its accuracy for each relation."""
    ta.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = TwoRelations(heads)
    first = max(DISTANCES)

    def draw(count):
        tokens = random.integers(0, TOKENS, (count, LENGTH))
        wanted = np.stack([np.roll(tokens, distance, axis=1) for distance in DISTANCES], axis=-1)
        return model(tokens)[:, first:], wanted[:, first:]

    right = fit_classifier(model, draw, steps, 1e-2, batch_size=64, test_size=500)
    return model, right.mean(axis=(0, 1))


@example
def main(run):
    costs = {heads: cost(heads) for heads in HEADS}
    trained = {heads: train(heads, run.choose(800, 300)) for heads in HEADS}

    header = ("heads", "parameters", "multiplications", "exponentials", "ms")
    rows = []
    for heads in HEADS:
        *counts, milliseconds = costs[heads]
        right = (f"{value:.3f}" for value in trained[heads][1])
        rows.append((heads, *counts, f"{milliseconds:.1f}", *right))
    run.print_table((*header, *(f"{distance} before" for distance in DISTANCES)), rows)
    print("\n(the last two columns: accuracy for the token at that distance)")

    assert len({costs[heads][:2] for heads in HEADS}) == 1
    for heads in HEADS:
        assert costs[heads][2] == heads * costs[1][2]
    assert min(trained[2][1]) > 0.95 and min(trained[4][1]) > 0.95
    assert np.mean(trained[1][1]) < 0.8

    figure, axes = run.figure(1, 4, width=3)
    maps = {}
    tokens = np.random.default_rng(1).integers(0, TOKENS, (1, LENGTH))
    for heads in (1, 2):
        model = trained[heads][0]
        with ta.no_grad(), model.record("attention.weights") as record:
            model(tokens)
        maps[heads] = record["attention.weights"].value[0]
    run.draw_weights(axes[0], "the one head", maps[1][0])
    for head in range(2):
        run.draw_weights(axes[1 + head], f"head {head + 1} of two", maps[2][head])
    for place, (distance, color) in enumerate(zip(DISTANCES, (BLUE, ORANGE))):
        at = np.arange(len(HEADS)) + 0.35 * (place - 0.5)
        values = [trained[heads][1][place] for heads in HEADS]
        axes[3].bar(at, values, 0.33, color=color, label=f"{distance} before")
    axes[3].set_xticks(range(len(HEADS)), HEADS)
    axes[3].set(title="accuracy", xlabel="heads", ylim=(0, 1.3), yticks=(0, 0.5, 1))
    axes[3].legend(ncols=2, loc="upper center", fontsize=8)
    run.save(figure)


if __name__ == "__main__":
    main()
