"""Why queries, keys and values have separate projections, and what goes wrong if two of them share one.

Article, section 3 ("Q / K / V：不是三种数据，是三个“角色”"). Claims: with Q = K one representation must say both
what a token looks for and what it offers; with V = K one must serve both for matching and for passing on content.

The task has the smallest relation that is not symmetric: pronouns look for names, names for verbs, verbs for pronouns.
Three tokens, each with a kind and a payload (of 16), are in random order; each must predict the payload of the kind
that its own kind looks for. The model is one head of attention and a linear layer, without positions.

 - Q = K makes scores symmetric: s(a, b) = s(b, a). If all tokens chose correctly, s(pronoun, name) > s(pronoun,
   verb) = s(verb, pronoun) > s(verb, name) = s(name, verb) > s(name, pronoun) = s(pronoun, name), which is impossible.
   One of the three must choose wrongly, at any width: the accuracy is at most 2/3, apart from equal payloads.
 - V = K is a matter of capacity. Two dimensions suffice for kinds or for payloads, but not for both in one vector. A
   wide head has enough dimensions for both, and nothing is lost. The article's reason holds for narrow heads.

Measured: the accuracy after training.
"""

import numpy as np

import tinyattn as ta
from harness import BLUE, ORANGE, PURPLE, example, fit_classifier
from tinyattn import nn

KINDS, PAYLOADS = 3, 16
WAYS = ("separate", "Q = K", "V = K")


class OneHead(nn.Module):
    """Attention of one head without residual connection, some of its projections shared, and a linear readout."""

    def __init__(self, way, width, dim=32):
        self.scale = width**-0.5
        self.embedding = nn.Embedding(KINDS * PAYLOADS, dim)
        self.query = nn.Linear(dim, width, bias=False)
        self.key = self.query if way == "Q = K" else nn.Linear(dim, width, bias=False)
        self.value = self.key if way == "V = K" else nn.Linear(dim, width, bias=False)
        self.readout = nn.Linear(width, PAYLOADS)

    def weights(self, tokens):
        x = self.embedding(tokens)
        return ta.softmax(self.query(x) @ self.key(x).mT * self.scale)

    def forward(self, tokens):
        return self.readout(self.weights(tokens) @ self.value(self.embedding(tokens)))


def draw_batch(random, count):
    """Tokens (count, 3), each a kind and a payload as one number, and the payload that each looks for."""
    kinds = random.permuted(np.tile(np.arange(KINDS), (count, 1)), axis=1)
    payload_of = random.integers(0, PAYLOADS, (count, KINDS))
    payloads = np.take_along_axis(payload_of, kinds, axis=1)
    wanted = np.take_along_axis(payload_of, (kinds + 1) % KINDS, axis=1)
    return kinds * PAYLOADS + payloads, wanted


def train(way, width, steps, seed=0):
    """The trained model, and its accuracy on new sequences."""
    ta.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = OneHead(way, width)

    def draw(count):
        tokens, wanted = draw_batch(random, count)
        return model(tokens), wanted

    return model, fit_classifier(model, draw, steps, 3e-2, batch_size=128, test_size=2000).mean()


@example
def main(run):
    widths = run.choose((2, 4, 16), (2, 16))
    steps = run.choose(600, 250)
    trained = {(way, width): train(way, width, steps) for way in WAYS for width in widths}
    share = {key: right for key, (_, right) in trained.items()}

    print("accuracy, by width of the head:\n")
    run.print_table(
        ("", *widths),
        [(way, *(f"{share[way, width]:.3f}" for width in widths)) for way in WAYS],
    )
    most = 2 / 3 + 1 / 3 / PAYLOADS
    print(f"\nwith Q = K the accuracy is at most {most:.3f}")

    narrow, wide = widths[0], widths[-1]
    for width in widths:
        assert share["separate", width] > 0.95
        assert share["Q = K", width] < most + 0.04
    assert share["V = K", narrow] < 0.85
    assert share["V = K", wide] > 0.95

    figure, (*maps, bars) = run.figure(1, 4, width=3)
    tokens = np.arange(KINDS) * PAYLOADS  # one of each kind, payload 0
    for panel, way in zip(maps, WAYS):
        with ta.no_grad():
            weights = trained[way, narrow][0].weights(tokens).numpy()
        run.draw_weights(panel, f"{way}, {narrow} wide", weights, ("pronoun", "name", "verb"))
    for place, (way, color) in enumerate(zip(WAYS, (BLUE, ORANGE, PURPLE))):
        at = np.arange(len(widths)) + 0.27 * (place - 1)
        bars.bar(at, [share[way, width] for width in widths], 0.25, color=color, label=way)
    bars.axhline(most, linestyle="--", color="gray", linewidth=1)
    bars.set(title="accuracy", xlabel="width of the head", ylim=(0, 1.35), yticks=(0, 0.5, 1))
    bars.set_xticks(range(len(widths)), widths)
    bars.legend(ncols=3, fontsize=7, handlelength=1, columnspacing=0.8, loc="upper center")
    run.save(figure)


if __name__ == "__main__":
    main()
