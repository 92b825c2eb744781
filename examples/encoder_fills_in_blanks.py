"""An encoder sees both sides of a gap, a causal model the left one only: who fills it better?

Article, section 7 ("Causal Mask：让模型“不能偷看未来”", its last sentence) and section 9 ("Self-Attention 在
Transformer 中的位置": the block with norms after the sums). Claim: an encoder needs no causal mask, it may look both
ways.

Two models of the same blocks, post-norm as the article draws them: one is trained to say masked characters, without a
causal mask, one to say the next character, with one. Then one character is hidden in texts that neither has seen.

Measured: the loss on the hidden characters, in nats, and how often the likeliest one is right. First on texts that
say everything twice, random letters and then the same again: a gap in the first half can only be filled from the
second. Then, unless --quick, on Python's own documentation, over the steps of training. There the causal model is
ahead at first: each text gives it a target at every character, the encoder only at the masked ones. (A causal model
can use the right side too, by comparing the probability of the whole text for every character that could fill the
gap; that costs a pass for each of them.)
"""

import numpy as np

import tinyattn as ta
from harness import BLUE, ORANGE, example, fit
from tinyattn.backend import Random
from tinyattn.data import Batches, CharDataset
from tinyattn.models import GPT, Encoder, EncoderConfig, GPTConfig, mask_tokens

KINDS = {"encoder": BLUE, "causal": ORANGE}
LETTERS, HALF = 8, 6  # of the texts that say everything twice
BLOCK = 48  # of the documentation
MASKED = 0.3  # of the characters, in training


def make_model(kind, **settings):
    """An ``"encoder"`` or a ``"causal"`` model of post-norm blocks with four heads."""
    ta.manual_seed(0)
    model, config = (Encoder, EncoderConfig) if kind == "encoder" else (GPT, GPTConfig)
    paper = {"norm": "post", "bias": True, "activation": "gelu", "qk_norm": False}
    return model(config(heads=4, **paper, **settings))


def score(model, texts, gap):
    """The loss on the characters at the gap, and the share that is right."""
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
    """Train on the texts (count, length) that ``draw`` gives; ``measure`` at equal stages, the last step included."""
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
    """The score at a gap in the first half of texts that say everything twice, after training."""
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
    """Scores at a gap in the middle of texts from the documentation: (step, loss, share right), in stages."""
    dataset = CharDataset.load("pydoc", BLOCK)
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
        "gaps in the first half of texts that say everything twice (guessing: loss "
        f"{np.log(LETTERS):.3f}, right {1 / LETTERS:.3f}):\n"
    )
    run.print_table(
        ("", "loss", "right"),
        [(kind, f"{loss:.3f}", f"{right:.3f}") for kind, (loss, right) in repeated.items()],
    )
    assert repeated["encoder"][1] > 0.9
    assert repeated["causal"][1] < 0.25 and repeated["causal"][0] > 0.95 * np.log(LETTERS)

    figure, axes = run.figure(1, run.choose(2, 1), width=4.4, squeeze=False)
    first = axes[0, 0]
    first.bar(list(repeated), [right for _, right in repeated.values()], 0.5, color=KINDS.values())
    first.axhline(1 / LETTERS, linestyle="--", color="grey")
    first.set(
        title="texts that say everything twice:\ngaps in the first half filled rightly",
        ylim=(0, 1.05),
    )
    if not run.quick:
        documentation = {kind: fill_documentation(kind, 600) for kind in KINDS}
        print("\ngaps in Python's documentation:\n")
        rows = zip(*documentation.values())
        run.print_table(
            ("steps", "encoder: loss", "right", "causal: loss", "right"),
            [
                (one[0], f"{one[1]:.3f}", f"{one[2]:.3f}", f"{other[1]:.3f}", f"{other[2]:.3f}")
                for one, other in rows
            ],
        )
        assert documentation["encoder"][-1][1] < documentation["causal"][-1][1]
        second = axes[0, 1]
        for kind, colour in KINDS.items():
            steps, losses, _ = zip(*documentation[kind])
            second.plot(steps[1:], losses[1:], "o-", color=colour, label=kind)
        second.set(title="Python's documentation", xlabel="steps", ylabel="loss at the gap, nats")
        second.legend()
    run.save(figure)


if __name__ == "__main__":
    main()
