"""Why queries, keys and values have projections of their own, and what goes wrong when two of them share one.

Article, section 3 ("Q / K / V：不是三种数据，是三个“角色”"). Claims: with Q = K one representation must say both
what a token looks for and what it offers; with V = K one must serve both for matching and for passing on content.

The task has the smallest relation that is not mutual: pronouns look for names, names for verbs, verbs for pronouns.
Each of three tokens has a kind and a payload (of 16), comes in any order, and must say the payload of the kind that
its own kind looks for. One head of attention, then a linear layer; nothing knows positions.

 - Q = K makes scores mutual: s(a, b) = s(b, a). Each token choosing rightly would mean s(pronoun, name) > s(pronoun,
   verb) = s(verb, pronoun) > s(verb, name) = s(name, verb) > s(name, pronoun) = s(pronoun, name): no three numbers
   do that. One of the three must choose wrongly, at any width: at most 2/3 are right, but for lucky payloads.
 - V = K is different: it is a matter of room. Two dimensions are enough for kinds and for payloads apart, not for
   both in one vector. In a wide head both fit side by side, and nothing is lost. The article's reason holds for
   narrow heads.

Measured: the share of right answers after training.
"""

import numpy as np

import tinyattn as ta
from harness import BLUE, ORANGE, PURPLE, example, fit
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
    """Tokens (count, 3), kind and payload in one number, and for each the payload that it looks for."""
    kinds = random.permuted(np.tile(np.arange(KINDS), (count, 1)), axis=1)
    payload_of = random.integers(0, PAYLOADS, (count, KINDS))
    payloads = np.take_along_axis(payload_of, kinds, axis=1)
    wanted = np.take_along_axis(payload_of, (kinds + 1) % KINDS, axis=1)
    return kinds * PAYLOADS + payloads, wanted


def train(way, width, steps, seed=0):
    """The trained model, and its share of right answers on fresh sequences."""
    ta.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = OneHead(way, width)

    def loss():
        tokens, wanted = draw_batch(random, 128)
        return ta.cross_entropy(model(tokens), wanted)

    fit(model.parameters(), loss, steps, learning_rate=3e-2)
    tokens, wanted = draw_batch(random, 2000)
    with ta.no_grad():
        right = model(tokens).numpy().argmax(axis=-1) == wanted
    return model, right.mean()


@example
def main(run):
    widths = run.choose((2, 4, 16), (2, 16))
    steps = run.choose(600, 250)
    trained = {(way, width): train(way, width, steps) for way in WAYS for width in widths}
    share = {key: right for key, (_, right) in trained.items()}

    print("share of right answers, by width of the head:\n")
    run.print_table(
        ("", *widths),
        [(way, *(f"{share[way, width]:.3f}" for width in widths)) for way in WAYS],
    )
    most = 2 / 3 + 1 / 3 / PAYLOADS
    print(f"\nwith Q = K at most {most:.3f} can be right")

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
    for place, (way, colour) in enumerate(zip(WAYS, (BLUE, ORANGE, PURPLE))):
        at = np.arange(len(widths)) + 0.27 * (place - 1)
        bars.bar(at, [share[way, width] for width in widths], 0.25, color=colour, label=way)
    bars.axhline(most, linestyle="--", color="grey", linewidth=1)
    bars.set(title="right answers", xlabel="width of the head", ylim=(0, 1.35), yticks=(0, 0.5, 1))
    bars.set_xticks(range(len(widths)), widths)
    bars.legend(ncols=3, fontsize=7, handlelength=1, columnspacing=0.8, loc="upper center")
    run.save(figure)


if __name__ == "__main__":
    main()
