"""The rule of ``--minutes``, with the speeds of imaginary machines."""

import itertools

import pytest

from tinyattn.train.budget import rule
from tinyattn.train.budget.rule import Text, TooShortError, candidates, choose, step_flops
from tinyattn.train.config import OptimizerOptions, make_config

SHAKESPEARE = Text(training=1_003_854, validation=111_540, vocabulary=65)
SHORT = Text(training=18_000, validation=2_000, vocabulary=60)
LONG = Text(training=90_000_000, validation=10_000_000, vocabulary=97)
CHINESE = Text(training=2_000_000, validation=200_000, vocabulary=5_000)
TEXTS = [SHAKESPEARE, SHORT, LONG, CHINESE]
SIZE = ("layers", "heads", "dim", "block_size", "batch_size")
DURATIONS = [1, 3, 10, 20, 60, 90, 300, 1200, 7200, 1e5, 1e10]


def machine(text, flops_per_second=1e11, overhead=0.003):
    """The seconds per step of a machine with a rate and a constant time per step."""
    return lambda options: overhead + step_flops(options, text.vocabulary) / flops_per_second


def parameters(options):
    return 12 * options["layers"] * options["dim"] ** 2


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("rate", [1e9, 1e11, 1e14])
def test_more_time_never_gives_a_smaller_model_or_less_text(text, rate):
    chosen = [choose(seconds, text, machine(text, rate)) for seconds in DURATIONS[2:]]
    for less, more in itertools.pairwise(chosen):
        assert parameters(less) <= parameters(more)
        assert less["block_size"] <= more["block_size"]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("seconds", DURATIONS)
def test_the_steps_fit_the_time_and_use_it_unless_the_text_is_short(text, seconds):
    speed = machine(text)
    options = choose(seconds, text, speed)
    used = options["steps"] * speed(options)
    tokens = options["steps"] * options["batch_size"] * options["block_size"]
    assert used <= seconds
    assert used + speed(options) > seconds or tokens > (rule.MOST_EPOCHS - 1) * text.training


def test_a_faster_machine_never_trains_a_smaller_model():
    rates = [1e9, 1e10, 1e11, 1e12, 1e13]
    sizes = [parameters(choose(60, SHAKESPEARE, machine(SHAKESPEARE, rate))) for rate in rates]
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1]


def test_a_model_for_a_short_text_is_small_is_regularized_and_ends_early():
    options = choose(3600, SHORT, machine(SHORT))
    assert parameters(options) <= rule.PARAMETERS_PER_TOKEN * SHORT.training
    assert options["dropout"] == rule.dropout(rule.MOST_EPOCHS) > 0.1
    assert options["steps"] * machine(SHORT)(options) < 600


def test_a_text_that_is_read_a_few_times_needs_no_dropout():
    assert choose(1200, LONG, machine(LONG))["dropout"] == 0
    assert choose(300, SHAKESPEARE, machine(SHAKESPEARE))["dropout"] == 0


def test_a_large_vocabulary_costs_time():
    few = choose(60, SHAKESPEARE, machine(SHAKESPEARE))
    many = choose(60, CHINESE, machine(CHINESE))
    assert step_flops(many, 65) * many["steps"] < 0.8 * (step_flops(few, 65) * few["steps"])


@pytest.mark.parametrize(
    "given",
    [
        {"layers": 2},
        {"heads": 3},
        {"heads": 5, "layers": 3},
        {"dim": 100},
        {"dim": 14},
        {"block_size": 100, "batch_size": 3},
        {"dropout": 0.0, "warmup_steps": 1, "evaluate_every": 7, "sample_every": 0},
        {"layers": 2, "heads": 2, "dim": 32, "block_size": 16, "batch_size": 4},
    ],
)
def test_given_options_are_kept_and_the_others_fit_them(given):
    for text, seconds in itertools.product(TEXTS, DURATIONS[2:]):
        options = choose(seconds, text, machine(text), given)
        assert not options.keys() & given.keys()
        config = make_config({**options, **given})  # valid: heads divide the width, and so on
        assert config.architecture.block_size <= text.validation


def test_given_options_make_a_difference_to_the_rest():
    free = choose(60, SHAKESPEARE, machine(SHAKESPEARE))
    large = choose(60, SHAKESPEARE, machine(SHAKESPEARE), {"layers": 12, "dim": 384})
    assert large["steps"] * large["batch_size"] < free["steps"] * free["batch_size"]


def test_a_time_too_short_for_anything_is_refused_with_the_shortest():
    speed = machine(SHAKESPEARE, 1e8)
    with pytest.raises(TooShortError) as caught:
        choose(0.1, SHAKESPEARE, speed)
    assert choose(1.01 * caught.value.shortest, SHAKESPEARE, speed)["steps"] == rule.FEWEST_STEPS
    for seconds in (0, -5):
        with pytest.raises(TooShortError):
            choose(seconds, SHAKESPEARE, speed)


def test_windows_fit_a_text_of_a_few_characters():
    for length in (2, 5, 30):
        text = Text(training=9 * length, validation=length, vocabulary=4)
        options = choose(1e9, text, machine(text))
        assert options["block_size"] < length
        assert make_config(options)


def test_learning_rates_are_the_default_ones_or_smaller_for_a_longer_run():
    short = choose(5, SHAKESPEARE, machine(SHAKESPEARE), {"layers": 4, "dim": 128})
    assert short["learning_rate"] == OptimizerOptions.learning_rate
    long = choose(1000, SHAKESPEARE, machine(SHAKESPEARE))
    assert 0.3 < long["learning_rate"] / OptimizerOptions.learning_rate < 0.9
    assert 0.3 < long["muon_learning_rate"] / OptimizerOptions.muon_learning_rate < 0.9


def test_sizes_grow():
    for small, large in itertools.pairwise(candidates(Text(10**9, 10**8, 65), {})):
        assert step_flops(small[0], 65) < step_flops(large[0], 65)


def test_dropout_grows_with_the_passes_over_the_text():
    values = [rule.dropout(epochs) for epochs in (0.1, 3, 4, 8, 16, 30)]
    assert values == sorted(values)
    assert values[0] == values[1] == 0 < values[2]


def test_the_warmup_is_a_share_of_the_steps():
    size = {"batch_size": 12, "block_size": 64}
    for steps in (20, 300, 5000):
        warmup = rule.training_options(size, steps, LONG, {})["warmup_steps"]
        assert 1 <= warmup <= steps / 20


@pytest.mark.parametrize("text", TEXTS)
def test_evaluations_cost_a_share_of_the_time_and_cover_the_whole_part_if_they_can(text):
    for seconds, state in itertools.product((20, 60, 300, 1200, 1e9), (0, 0.1, 1)):
        number, tokens = rule.evaluations(seconds, 3e-5, state, text)
        cost = number * (tokens * 3e-5 + state)
        assert cost <= 1.01 * rule.EVALUATION_SHARE * seconds or number == 1
        assert 1 <= number <= rule.MOST_EVALUATIONS
        assert number <= rule.FEWEST_EVALUATIONS or tokens == min(text.validation, 10**6)
