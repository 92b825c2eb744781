"""An encoder sees both sides of a gap, a causal model only the left one: which predicts it better?

Article, section 7 ("Causal Mask：让模型“不能偷看未来”", its last sentence) and section 9 ("Self-Attention 在
Transformer 中的位置": the block with norms after the sums). Claim: an encoder needs no causal mask, since it may
attend in both directions.

Two models with the same blocks, post-norm as in the article: one is trained to predict masked characters, without a
causal mask, the other to predict the next character, with one. Then one character is masked in texts that neither was
trained on.

Measured: the loss on the masked characters, in nats, and the accuracy. First on random letters that are repeated once:
a gap in the first half can only be inferred from the second. Then, unless --quick, on Python's documentation, during
training. There the causal model is better at first: it has a target at every character of a text, the encoder only at
the masked ones. (A causal model can use the right side, too, by comparing the probabilities of the complete text for
every candidate, at the cost of one pass for each.)
"""

import numpy as np

import tinyattn as ta
from harness import BLUE, ORANGE, example, fit
from tinyattn.backend import Random
from tinyattn.data import Batches, TextDataset
from tinyattn.models import GPT, Encoder, EncoderConfig, GPTConfig, mask_tokens

KINDS = {"encoder": BLUE, "causal": ORANGE}
LETTERS, HALF = 8, 6  # of the repeated texts
BLOCK = 48  # of the documentation
MASKED = 0.3  # of the characters, in training


def make_model(kind, **settings):
    """An ``"encoder"`` or a ``"causal"`` model with post-norm blocks of four heads."""
    ta.manual_seed(0)
    model, config = (Encoder, EncoderConfig) if kind == "encoder" else (GPT, GPTConfig)
    paper = {"norm": "post", "bias": True, "activation": "gelu", "qk_norm": False}
    if kind == "causal":
        paper["previous_embedding"] = False
    return model(config(heads=4, **paper, **settings))


def score(model, texts, gap):
    """The loss on the characters at the gap, and the accuracy."""
    with ta.no_grad():
        if isinstance(model, Encoder):
            hidden = texts.copy()
            hidden[:, gap] = model.mask_id
            guesses = ta.log_softmax(model(hidden)[:, gap]).numpy()
        else:
            guesses = ta.log_softmax(model(texts[:, :gap])[:, -1]).numpy()
    answers = texts[:, gap]
    right = guesses.argmax(axis=-1) == answers
    return -guesses[np.arange(len(answers)), answers].mean(), right.mean()


def train(model, draw, steps, learning_rate, stages, measure):
    """Train on the texts (count, length) from ``draw``; call ``measure`` at equal stages and after the last step."""
    random = Random(1)
    measured = []

    def loss():
        texts = draw()
        if isinstance(model, Encoder):
            size = model.config.vocabulary_size
            inputs, targets = mask_tokens(texts, vocabulary_size=size, share=MASKED, random=random)
            return model.loss(inputs, targets)
        return model.loss(texts[:, :-1], texts[:, 1:])

    def counted_loss():
        step = len(steps_done)
        if step % (steps // stages) == 0:
            measured.append((step, *measure(model)))
        steps_done.append(step)
        return loss()

    steps_done = []
    fit(model.parameters(), counted_loss, steps, learning_rate=learning_rate)
    measured.append((steps, *measure(model)))
    return measured


def fill_repetition(kind, steps):
    """The score at a gap in the first half of repeated texts, after training."""
    random = np.random.default_rng(0)

    def draw(count=32):
        half = random.integers(0, LETTERS, (count, HALF))
        return np.concatenate([half, half], axis=1)

    model = make_model(
        kind, vocabulary_size=LETTERS, block_size=2 * HALF, layers=1, dim=32, positions="rotary"
    )
    measured = train(model, draw, steps, 1e-2, 1, lambda model: score(model, draw(1000), HALF // 2))
    return measured[-1][1:]


def fill_documentation(kind, steps):
    """Scores at a gap in the middle of texts from the documentation: (step, loss, accuracy), during training."""
    dataset = TextDataset.load("pydoc", BLOCK)
    batches = Batches(dataset.train, BLOCK, batch_size=16, random=Random(0))
    starts = np.arange(0, len(dataset.validation) - BLOCK, BLOCK)[:600]
    texts = dataset.validation[starts[:, None] + np.arange(BLOCK)].astype(np.int64)
    model = make_model(
        kind,
        vocabulary_size=len(dataset.vocabulary),
        block_size=BLOCK,
        layers=2,
        dim=64,
        positions="rotary",
    )
    return train(
        model,
        lambda: batches.draw()[0],
        steps,
        6e-3,
        6,
        lambda model: score(model, texts, BLOCK // 2),
    )


@example
def main(run):
    steps = run.choose(400, 250)
    repeated = {kind: fill_repetition(kind, steps) for kind in KINDS}
    print(
        "gaps in the first half of repeated texts (chance: loss "
        f"{np.log(LETTERS):.3f}, accuracy {1 / LETTERS:.3f}):\n"
    )
    run.print_table(
        ("", "loss", "accuracy"),
        [(kind, f"{loss:.3f}", f"{right:.3f}") for kind, (loss, right) in repeated.items()],
    )
    assert repeated["encoder"][1] > 0.9
    assert repeated["causal"][1] < 0.25 and repeated["causal"][0] > 0.95 * np.log(LETTERS)

    figure, axes = run.figure(1, run.choose(2, 1), width=4.4, squeeze=False)
    first = axes[0, 0]
    first.bar(list(repeated), [right for _, right in repeated.values()], 0.5, color=KINDS.values())
    first.axhline(1 / LETTERS, linestyle="--", color="gray")
    first.set(
        title="repeated texts:\naccuracy at gaps in the first half",
        ylim=(0, 1.05),
    )
    if not run.quick:
        documentation = {kind: fill_documentation(kind, 600) for kind in KINDS}
        print("\ngaps in Python's documentation:\n")
        rows = zip(*documentation.values())
        run.print_table(
            ("steps", "encoder: loss", "accuracy", "causal: loss", "accuracy"),
            [
                (one[0], f"{one[1]:.3f}", f"{one[2]:.3f}", f"{other[1]:.3f}", f"{other[2]:.3f}")
                for one, other in rows
            ],
        )
        assert documentation["encoder"][-1][1] < documentation["causal"][-1][1]
        second = axes[0, 1]
        for kind, color in KINDS.items():
            steps, losses, _ = zip(*documentation[kind])
            second.plot(steps[1:], losses[1:], "o-", color=color, label=kind)
        second.set(title="Python's documentation", xlabel="steps", ylabel="loss at the gap, nats")
        second.legend()
    run.save(figure)


if __name__ == "__main__":
    main()
