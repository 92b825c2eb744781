"""What attention heads learn on real text: each head is measured and classified by definitions.

Article, section 8 ("Multi-Head Attention：多个子空间并行", what visualizations show). Claims: some heads attend to
neighbors, some to distant tokens, some almost evenly, and layers differ. Large models also have heads that attend to
the first token (attention sinks).

Two GPTs are trained on Python's documentation, one with rotary positions, one without positions. Then the weights of
each head on texts that were not used for training are measured by the definitions of ``tinyattn.study.heads``: the
share of its weight on neighbors, at a distance of 16 or more characters, on the first character, on equal characters,
after equal characters, and the evenness of its weights; each compared with even attention on the same texts. Before
training all heads are even.

Found: heads for neighbors in the model with positions; and layers differ, as the heads of the first remain more even.
The model without positions cannot attend to a neighbor. Some of its heads remain even, which is useful with a causal
mask: an even average over all previous tokens encodes their number. Not found, in models this small after so little
training: heads for distant characters or for the first one, with much more weight there than even attention.
"""

import functools

import numpy as np

import tinyattn as ta
from harness import example, fit
from tinyattn.backend import Random
from tinyattn.data import Batches, TextDataset
from tinyattn.models import GPT, GPTConfig
from tinyattn.study.heads import BEHAVIORS, even_shares, kind_of, measure_heads

BLOCK = 64


@functools.cache
def corpus():
    """Python's documentation as ids, with its training and validation split."""
    return TextDataset.load("pydoc", BLOCK)


def make_gpt(positions, seed=0):
    """An untrained GPT of two blocks with four heads, for the characters of the corpus."""
    ta.manual_seed(seed)
    size = len(corpus().vocabulary)
    return GPT(
        GPTConfig.gpt2(
            vocabulary_size=size,
            block_size=BLOCK,
            layers=2,
            heads=4,
            dim=64,
            positions=positions,
            bias=False,
            activation="gelu",
        )
    )


@functools.cache
def trained_gpt(steps, positions="rotary", seed=0):
    """The GPT after training on the corpus, and the mean loss of the last ten steps."""
    model = make_gpt(positions, seed)
    batches = Batches(corpus().train, BLOCK, batch_size=8, random=Random(seed))
    losses = fit(model.parameters(), lambda: model.loss(*batches.draw()), steps, learning_rate=6e-3)
    return model, float(np.mean(losses[-10:]))


def measure(model, texts):
    """The weights (texts, layers, heads, BLOCK, BLOCK), the shares of each head and of even attention, and classes.

    Shares are means over the texts: a dict of behavior to an array (layers, heads), for even attention to a number.
    """
    characters = corpus().vocabulary.characters
    with ta.no_grad(), model.record("attention.weights") as record:
        model(texts)
    weights = np.stack([record[name].value for name in record], axis=1)
    visible = np.tril(np.ones((BLOCK, BLOCK), bool))
    shares, even = [], []
    for ids, of_text in zip(texts, weights):
        text = [characters[i] for i in ids]
        shares.append(measure_heads(of_text, text, visible))
        even.append(even_shares(text, visible))
    keys = [behavior.key for behavior in BEHAVIORS]
    shares = {key: np.mean([one[key] for one in shares], axis=0) for key in keys}
    even = {key: float(np.mean([one[key] for one in even])) for key in keys}
    layers, heads = shares["uniform"].shape
    names = {
        (layer, head): kind_of({key: shares[key][layer, head] for key in keys}, even)
        for layer in range(layers)
        for head in range(heads)
    }
    return weights, shares, even, names


def validation_texts(count):
    """Evenly spaced windows of the validation split, (count, BLOCK)."""
    ids = corpus().validation
    starts = np.linspace(0, len(ids) - BLOCK - 1, count).astype(int)
    return ids[starts[:, None] + np.arange(BLOCK)].astype(np.int64)


@example
def main(run):
    steps, texts = run.choose(400, 80), validation_texts(run.choose(16, 8))
    behaviors = [behavior.name for behavior in BEHAVIORS]
    found, weights, evenness = {}, {}, {}
    for positions in ("rotary", "none"):
        before = measure(make_gpt(positions), texts)[3]
        model, loss = trained_gpt(steps, positions)
        weights[positions], shares, even, found[positions] = measure(model, texts)
        print(
            f"positions: {positions}; loss after {steps} steps {loss:.2f}; untrained: all {set(before.values())}\n"
        )
        rows = [
            (layer, head, *(f"{shares[one.key][layer, head]:.2f}" for one in BEHAVIORS), name)
            for (layer, head), name in found[positions].items()
        ]
        rows.append(("even", "", *(f"{even[one.key]:.2f}" for one in BEHAVIORS), ""))
        run.print_table(("layer", "head", *behaviors, "class"), rows)
        print()
        evenness[positions] = shares["uniform"].mean(axis=-1)  # by layer
        assert set(before.values()) == {"uniform"}
    print(ta.study.heads.THRESHOLDS)

    assert "neighbor" in found["rotary"].values()
    assert "neighbor" not in found["none"].values()
    assert "uniform" in found["none"].values()
    if not run.quick:
        for first, second in evenness.values():
            assert first > second + 0.05

    figure, axes = run.figure(2, 8, width=1.7, height=1.9)
    for start, (positions, names) in zip((0, 4), found.items()):
        for (layer, head), name in names.items():
            panel = axes[layer, start + head]
            run.draw_weights(
                panel, f"{layer}.{head}: {name}", weights[positions][0, layer, head] ** 0.5
            )
            panel.title.set_fontsize(8)
        axes[0, start].set_ylabel(f"{positions}, layer 0", fontsize=8)
        axes[1, start].set_ylabel(f"{positions}, layer 1", fontsize=8)
    figure.suptitle(
        "weights of every head on one text (square roots): rotary positions, and none", fontsize=10
    )
    run.save(figure)


if __name__ == "__main__":
    main()
