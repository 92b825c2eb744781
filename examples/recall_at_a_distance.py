"""Recall at a distance: a recurrent network, a convolutional one, and attention.

Article, section 1 ("序列建模的本质困难"). Claims: the memory of a recurrent network decays with the distance; a
convolution sees only its window, unless layers are stacked; attention reaches any distance in one step.

A sequence is a name (of 8), a number of words (of 8 others), and a question mark, whose answer is the name. The models
have about the same number of parameters, and are trained for the same number of steps at each distance. The receptive
field of the convolution is 3 tokens after one layer, 5 after two, as in the article, and 9 after its four.

Measured: accuracy after training; and, before training, the gradient of the answer's loss with respect to the name's
embedding, which is the signal for training, relative to that of the question mark's embedding, at the position of the
answer. (A gated network learns longer memory if it is trained for longer: the decay is an obstacle, not a limit. The
window of the convolution is a limit: beyond it the gradient is 0.)
"""

import numpy as np

import tinyattn as ta
from harness import BLUE, GREEN, ORANGE, example, fit_classifier
from tinyattn.models import CNN, GPT, RNN, CNNConfig, GPTConfig, RNNConfig

NAMES, WORDS = 8, 8
VOCABULARY = NAMES + WORDS + 1
QUESTION = NAMES + WORDS


def make_model(kind, longest, seed=0):
    """A GRU, a causal convolution or a GPT of some 25,000 parameters."""
    ta.manual_seed(seed)
    if kind == "RNN":
        return RNN(RNNConfig(vocabulary_size=VOCABULARY, layers=1, dim=64, bias=True))
    if kind == "CNN":
        settings = {"kernel_size": 3, "dilation": 1, "activation": "gelu", "bias": True}
        return CNN(CNNConfig(vocabulary_size=VOCABULARY, layers=4, dim=28, **settings))
    return GPT(
        GPTConfig.gpt2(
            vocabulary_size=VOCABULARY,
            block_size=longest + 2,
            layers=1,
            heads=2,
            dim=44,
            positions="rotary",
            activation="gelu",
        )
    )


KINDS = {"RNN": ORANGE, "CNN": GREEN, "attention": BLUE}


def draw_batch(random, count, distance):
    """Tokens (count, distance + 1), the question last, and the names."""
    names = random.integers(0, NAMES, count)
    words = random.integers(NAMES, NAMES + WORDS, (count, distance - 1))
    question = np.full((count, 1), QUESTION)
    return np.concatenate([names[:, None], words, question], axis=1), names


def gradient_share(kind, distance, longest, seed=0):
    """The gradient with respect to the name's embedding relative to the question mark's, before training."""
    tokens, names = draw_batch(np.random.default_rng(seed), 32, distance)
    model = make_model(kind, longest)
    vectors = []
    model.embedding.register_forward_hook(lambda module, inputs, output: vectors.append(output))
    loss = ta.cross_entropy(model(tokens)[:, -1], names)
    gradients = [gradient.numpy() for gradient in ta.grad(loss, vectors)]
    if len(gradients) > 1:  # the recurrent network reads token by token
        gradients = [np.stack(gradients, axis=1)]
    norms = np.linalg.norm(gradients[0], axis=-1)  # (sequences, length)
    return (norms[:, 0] / norms[:, -1]).mean()


def train(kind, distance, longest, steps, seed=0):
    """The accuracy after training."""
    random = np.random.default_rng(seed)
    model = make_model(kind, longest)

    def answers(count):
        tokens, names = draw_batch(random, count, distance)
        return model(tokens)[:, -1], names

    return fit_classifier(model, answers, steps, 5e-3, batch_size=32, test_size=400).mean()


@example
def main(run):
    distances = run.choose((4, 8, 16, 32, 64), (4, 32))
    steps = run.choose(80, 50)
    longest = distances[-1]
    sizes = {kind: make_model(kind, longest).parameter_count() for kind in KINDS}
    gradients = {
        (kind, distance): gradient_share(kind, distance, longest)
        for kind in KINDS
        for distance in distances
    }
    right = {}
    for kind, distance in gradients:
        right[kind, distance] = train(kind, distance, longest, steps)

    print("accuracy, by distance of the name:\n")
    rows = [
        (kind, sizes[kind], *(f"{right[kind, distance]:.3f}" for distance in distances))
        for kind in KINDS
    ]
    run.print_table(("", "parameters", *distances), rows)
    print("\ngradient with respect to the name, relative to the question mark, before training:\n")
    rows = [
        (kind, *(f"{gradients[kind, distance]:.1e}" for distance in distances)) for kind in KINDS
    ]
    run.print_table(("", *distances), rows)

    near, far = distances[0], distances[-1]
    for kind in KINDS:
        assert right[kind, near] > 0.95
    assert right["attention", far] > 0.97
    assert right["RNN", far] < 0.9
    assert right["CNN", far] < 0.3
    assert gradients["CNN", far] == 0
    assert gradients["RNN", far] < 1e-4 * gradients["RNN", near]
    # Even weights: proportional to 1 / distance, not exponential in it.
    assert gradients["attention", far] > 0.5 * near / far * gradients["attention", near]

    figure, (left, middle) = run.figure(1, 2, width=4.4)
    for kind, color in KINDS.items():
        style = {"color": color, "marker": "o", "label": kind}
        left.plot(distances, [right[kind, distance] for distance in distances], **style)
        reached = [distance for distance in distances if gradients[kind, distance] > 0]
        middle.loglog(reached, [gradients[kind, distance] for distance in reached], **style)
    left.axhline(1 / NAMES, linestyle="--", color="gray", label="chance")
    left.set_xscale("log", base=2)
    left.set(title=f"accuracy after {steps} steps", xlabel="distance", ylim=(0, 1.05))
    left.legend()
    middle.set_xscale("log", base=2)
    middle.set(title="gradient of the name before training\n(the CNN's is 0 beyond its window)")
    middle.set_xlabel("distance")
    for panel in (left, middle):
        panel.set_xticks(distances, distances)
    run.save(figure)


if __name__ == "__main__":
    main()
