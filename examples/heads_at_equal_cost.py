"""Several heads cost what one costs, and can look at several places at once.

Article, section 8 ("Multi-Head Attention：多个子空间并行"), and question 6 of section 13. Claims: h heads of d/h
dimensions have the parameters and nearly the arithmetic of one head of d; yet the model can follow several relations.

Measured: parameters, and multiplications counted from the shapes of every matrix product of a layer, which are equal;
what does grow with h is the softmax: h n^2 exponentials. Time of the forward and backward pass is printed, and depends
on the machine. Then a task with two relations: say both the token just before and the token three before, each through
a linear layer. One head has one distribution for both, so that it mixes the two tokens or sees one of them; two heads
of half the size keep them apart. (With a feed-forward layer behind it even one head could do it, by giving the two
tokens unequal weights and taking the sum apart again. What one head cannot do is keep them apart by itself.)
"""

import time

import numpy as np

import tinyattn as ta
from harness import BLUE, ORANGE, example, fit
from tinyattn import nn

HEADS = (1, 2, 4)
TOKENS, LENGTH, DISTANCES = 8, 12, (1, 3)


def cost(heads, dim=64, length=64):
    """Parameters, multiplications, exponentials and milliseconds of a layer of attention at batch 8."""
    ta.manual_seed(0)
    layer = nn.MultiHeadAttention(dim, heads)
    x = ta.tensor(np.random.default_rng(0).standard_normal((length, dim)), dtype=np.float32)
    # Shapes as they occur: the projections', and those of scores and weights in every head.
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
    """One layer of causal attention over tokens and positions, and for each relation a linear readout."""

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
    """The trained model and its share of right answers for each relation."""
    ta.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = TwoRelations(heads)
    first = max(DISTANCES)

    def draw(count):
        tokens = random.integers(0, TOKENS, (count, LENGTH))
        wanted = np.stack([np.roll(tokens, distance, axis=1) for distance in DISTANCES], axis=-1)
        return tokens, wanted[:, first:]

    def loss():
        tokens, wanted = draw(64)
        return ta.cross_entropy(model(tokens)[:, first:], wanted)

    fit(model.parameters(), loss, steps, learning_rate=1e-2)
    tokens, wanted = draw(500)
    with ta.no_grad():
        right = model(tokens).numpy()[:, first:].argmax(axis=-1) == wanted
    return model, right.mean(axis=(0, 1))


@example
def main(run):
    costs = {heads: cost(heads) for heads in HEADS}
    trained = {heads: train(heads, run.choose(800, 300)) for heads in HEADS}

    run.print_table(
        (
            "heads",
            "parameters",
            "multiplications",
            "exponentials",
            "ms",
            *(f"{d} before" for d in DISTANCES),
        ),
        [
            (
                heads,
                *costs[heads][:3],
                f"{costs[heads][3]:.1f}",
                *(f"{x:.3f}" for x in trained[heads][1]),
            )
            for heads in HEADS
        ],
    )
    print("\n(the last two columns: share of right answers about the token so many places before)")

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
    for place, (distance, colour) in enumerate(zip(DISTANCES, (BLUE, ORANGE))):
        at = np.arange(len(HEADS)) + 0.35 * (place - 0.5)
        values = [trained[heads][1][place] for heads in HEADS]
        axes[3].bar(at, values, 0.33, color=colour, label=f"{distance} before")
    axes[3].set_xticks(range(len(HEADS)), HEADS)
    axes[3].set(title="right answers", xlabel="heads", ylim=(0, 1.3), yticks=(0, 0.5, 1))
    axes[3].legend(ncols=2, loc="upper center", fontsize=8)
    run.save(figure)


if __name__ == "__main__":
    main()
