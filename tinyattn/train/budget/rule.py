"""The rule of ``--minutes``: which model and how many steps a time pays for, on a text and on a machine.

Let T be the seconds that are left for training, D the number of training tokens, s(c) the seconds per step of a
candidate c of ``SIZES``, b(c) its tokens per step and N(c) the parameters of its blocks, 12 layers dim^2.

1. Steps. The time and the text pay for n(c) = min(T / s(c), MOST_EPOCHS D / b(c)) steps: beyond some number of passes
   over a text, a model learns little but to repeat it. A run on a short text therefore ends before its time.

2. Size. A larger model reaches a lower loss, but needs more steps for it. ``SIZES`` lists for each size the fewest
   steps with which it was better than the next smaller one in the same time. The rule takes the largest c for which

       n(c) >= steps(c)    and    N(c) <= PARAMETERS_PER_TOKEN D.

   More time never gives a smaller model.

3. Regularization. With e = n b(c) / D passes over the text (epochs), the dropout probability is

       dropout = DROPOUT_PER_DOUBLING log2(e / FREE_EPOCHS),    at least 0:

   a text that is read a few times needs none, since dropout slows learning; each further doubling adds the same amount.

4. Schedule. The learning rates are the default ones times (300 / n)^(1/4), at most 1: 300 is the default number of
   steps, and longer runs need smaller ones. Warmup takes a thirtieth of the steps. EVALUATION_SHARE of the time pays
   for as many evaluations of the whole validation part as FEWEST_EVALUATIONS to MOST_EVALUATIONS, at equal distances,
   so that the best state precedes overfitting; if it does not pay for the fewest, these cover a part of it.

A given option is kept in every candidate, and the rest is chosen around it.
"""

import math
from dataclasses import dataclass

from ..config import OptimizerOptions, RunOptions

FEWEST_EVALUATIONS, MOST_EVALUATIONS = 5, 20
EVALUATION_SHARE = 0.06  # of the time
SAMPLE_SHARE = 0.02  # of the time
PARAMETERS_PER_TOKEN = 20
MOST_EPOCHS = 30
FREE_EPOCHS = 3
DROPOUT_PER_DOUBLING = 0.05
FEWEST_STEPS = 20  # below, nothing is learned
MOST_STEPS = 10**9
LEAST_EVALUATED_TOKENS, MOST_EVALUATED_TOKENS = 2048, 1_000_000


@dataclass(frozen=True)
class Size:
    """A candidate; ``steps`` is the fewest with which it is better than the one before."""

    layers: int
    heads: int
    dim: int
    block_size: int
    batch_size: int
    steps: int


# Measured with nine tenths of Tiny Shakespeare's training part as the text, one seed. Each row has similar CPU times,
# in parentheses as multiples of that of the default run, 4/4/128 with a context of 64 and 300 steps.
#
#   context, steps of 3/4/96         of 4/4/128               of a larger model
#   64,  470: 1.776 (0.8)            64,  300: 1.793 (1.0)
#   128, 260: 1.780 (0.8)            128, 180: 1.841 (1.0)
#   64,  940: 1.657 (1.5)            128, 370: 1.663 (2.0)
#   128, 540: 1.646 (1.6)
#   128, 1080: 1.572 (3.2)           128, 750: 1.550 (4.5)    4/4/160, 128, 500: 1.590 (4.0)
#                                    64, 1200: 1.576 (4.3)
#                                    128, 3000: 1.475 (20)    4/4/192, 128, 1100: 1.465 (13)
#
# The steps at which a size begins are interpolated; from 6/6/192 on, they are extrapolated.
SIZES = (
    Size(layers=1, heads=2, dim=32, block_size=32, batch_size=8, steps=FEWEST_STEPS),
    Size(layers=2, heads=2, dim=64, block_size=64, batch_size=12, steps=60),
    Size(layers=3, heads=4, dim=96, block_size=64, batch_size=12, steps=120),
    Size(layers=3, heads=4, dim=96, block_size=128, batch_size=12, steps=300),
    Size(layers=4, heads=4, dim=128, block_size=128, batch_size=12, steps=750),
    Size(layers=4, heads=4, dim=192, block_size=128, batch_size=16, steps=700),
    Size(layers=6, heads=6, dim=192, block_size=128, batch_size=16, steps=1800),
    Size(layers=6, heads=8, dim=256, block_size=256, batch_size=16, steps=2500),
    Size(layers=6, heads=6, dim=384, block_size=256, batch_size=16, steps=4000),
    Size(layers=8, heads=8, dim=512, block_size=256, batch_size=32, steps=10_000),
    Size(layers=12, heads=12, dim=768, block_size=512, batch_size=32, steps=30_000),
)


@dataclass(frozen=True)
class Text:
    """A text: numbers of tokens for training and validation, and of different tokens."""

    training: int
    validation: int
    vocabulary: int


class TooShortError(ValueError):
    """The time is too short for any run.

    Attributes:
        shortest: the fewest seconds of training that make sense.
    """

    def __init__(self, shortest):
        super().__init__(f"a run takes at least {shortest:.1f} s of training")
        self.shortest = shortest


def choose(seconds, text, step_seconds, given=None):
    """The options of the run for a time, a flat dict without the given ones.

    Args:
        seconds: the time for training steps.
        text: a ``Text``.
        step_seconds: function of a candidate's options: the seconds per step on this machine.
        given: dict of the options that are kept.

    Returns:
        The options of the size (``sizes``) and of steps and regularization (``training_options``).

    Raises:
        TooShortError: if there is no time for ``FEWEST_STEPS`` of the smallest candidate.

    >>> shakespeare = Text(training=1_003_854, validation=111_540, vocabulary=65)
    >>> laptop = lambda options: step_flops(options, shakespeare.vocabulary) / 1e11
    >>> options = choose(300, shakespeare, laptop)
    >>> options["layers"], options["dim"], options["steps"]
    (4, 192, 1233)
    """
    given = given or {}
    sizes = candidates(text, given)
    times = [step_seconds({**options, **given}) for options, _ in sizes]
    steps = [
        int(min(seconds / time, most_steps({**options, **given}, text)))
        for time, (options, _) in zip(times, sizes, strict=True)
    ]
    fitting = [i for i, (_, fewest) in enumerate(sizes) if steps[i] >= fewest]
    if not fitting:
        raise TooShortError(min(times) * FEWEST_STEPS)
    largest = fitting[-1]
    options, _ = sizes[largest]
    return {**options, **training_options({**options, **given}, steps[largest], text, given)}


def candidates(text, given):
    """The candidates for a text, from the smallest to the largest: pairs of options and the fewest steps.

    Options are adapted to the given ones: the number of heads divides the width, and a window fits the text.

    >>> [options["dim"] for options, _ in candidates(Text(18_000, 2_000, 60), {})]
    [32, 64, 96, 96]
    >>> candidates(Text(900, 40, 10), {"layers": 2, "heads": 3})[0]
    ({'dim': 30, 'block_size': 32, 'batch_size': 8}, 20)
    """
    longest = max(1, min(text.training, text.validation) - 1)
    found = []
    for size in SIZES:
        if found and 12 * size.layers * size.dim**2 > PARAMETERS_PER_TOKEN * text.training:
            break
        options = {
            "layers": size.layers,
            "heads": _heads(size, given),
            "dim": _dim(size, given),
            "block_size": min(size.block_size, longest),
            "batch_size": size.batch_size,
        }
        options = {name: value for name, value in options.items() if name not in given}
        if not found or options != found[-1][0]:
            found.append((options, size.steps))
    if found:  # with a given size, the first candidate needs no more than the fewest steps
        found[0] = (found[0][0], FEWEST_STEPS)
    return found


def _dim(size, given):
    """The width of a size, a multiple of twice the given number of heads: rotary positions rotate pairs."""
    heads = given.get("heads")
    if not isinstance(heads, int) or heads < 1:
        return size.dim
    return max(1, round(size.dim / (2 * heads))) * 2 * heads


def _heads(size, given):
    """The number of heads of a size, or the next smaller one that divides the given width into pairs."""
    dim = given.get("dim")
    if not isinstance(dim, int):
        return size.heads
    return next((n for n in range(size.heads, 1, -1) if dim % (2 * n) == 0), 1)


def training_options(size, steps, text, given):
    """The options of a candidate that depend on the number of steps, without the given ones.

    Args:
        size: the candidate's options and the given ones.
        steps: the number of steps that the time pays for.
        text, given: as for ``choose``.
    """
    epochs = steps * size["batch_size"] * size["block_size"] / text.training
    options = {
        "steps": steps,
        "dropout": dropout(epochs),
        "learning_rate": _smaller(OptimizerOptions.learning_rate, steps),
        "muon_learning_rate": _smaller(OptimizerOptions.muon_learning_rate, steps),
        "warmup_steps": max(1, min(steps // 30, 100)),
    }
    return {name: value for name, value in options.items() if name not in given}


def most_steps(size, text):
    """The number of steps of ``MOST_EPOCHS`` passes over the text.

    >>> most_steps({"batch_size": 12, "block_size": 64}, Text(18_000, 2_000, 60))
    703
    """
    steps = MOST_EPOCHS * text.training // (size["batch_size"] * size["block_size"])
    return max(FEWEST_STEPS, min(int(steps), MOST_STEPS))


def dropout(epochs):
    """The dropout probability for a number of passes over the text.

    >>> dropout(2.5), dropout(6), dropout(30)
    (0.0, 0.05, 0.17)
    """
    return round(DROPOUT_PER_DOUBLING * math.log2(max(epochs / FREE_EPOCHS, 1)), 2)


def _smaller(learning_rate, steps):
    """A default learning rate for a number of steps, with three significant digits."""
    factor = min(1.0, (RunOptions.steps / steps) ** 0.25)
    return float(f"{factor * learning_rate:.3g}")


def evaluations(seconds, token_seconds, state_seconds, text):
    """The number of evaluations of a run, and the number of validation tokens that each of them covers.

    Args:
        seconds: the time of the run.
        token_seconds: seconds per evaluated token.
        state_seconds: seconds to save the states after an evaluation.
        text: a ``Text``.

    >>> shakespeare = Text(1_003_854, 111_540, 65)
    >>> [evaluations(seconds, 4e-5, 0.1, shakespeare) for seconds in (60, 800, 6000)]
    [(5, 15500), (10, 111540), (20, 111540)]
    >>> evaluations(60, 1e-3, 20, shakespeare)  # a large model
    (1, 2048)
    """
    affordable = EVALUATION_SHARE * seconds
    whole, part = (min(text.validation, n) for n in (MOST_EVALUATED_TOKENS, LEAST_EVALUATED_TOKENS))
    number = int(affordable / (whole * token_seconds + state_seconds))
    number = max(FEWEST_EVALUATIONS, min(MOST_EVALUATIONS, number))
    number = max(1, min(number, int(affordable / (part * token_seconds + state_seconds))))
    tokens = round((affordable / number - state_seconds) / token_seconds)
    return number, min(whole, max(part, tokens))


def number_of_samples(seconds, sample_seconds, number):
    """How many text samples a run prints: one with each of ``number`` evaluations, one at the end, or none.

    >>> [number_of_samples(60, sample_seconds, 10) for sample_seconds in (0.1, 1, 10)]
    [10, 1, 0]
    """
    return next((n for n in (number, 1) if n * sample_seconds <= SAMPLE_SHARE * seconds), 0)


def step_flops(options, vocabulary):
    """Floating-point operations of a training step of a GPT, to compare the times of two sizes.

    A token takes 2 operations per weight in the forward pass and 4 in the backward pass: 12 dim^2 weights in a block,
    dim for each token of the vocabulary, and 2 length dim in the scores and the weighted sum of attention.

    >>> step_flops({"layers": 1, "dim": 2, "block_size": 3, "batch_size": 1}, vocabulary=5)
    1260
    """
    dim, length = options["dim"], options["block_size"]
    weights = options["layers"] * (12 * dim**2 + 2 * length * dim) + vocabulary * dim
    return 6 * weights * length * options["batch_size"]
