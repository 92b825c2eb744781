"""A run with a time chooses its options once, and is an ordinary run afterwards."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.data import InputError, TextDataset
from tinyattn.train import begin, resume
from tinyattn.train.budget import rule, time_budget
from tinyattn.train.budget.time_budget import TimeBudget
from tinyattn.train.budget.trial import Costs
from tinyattn.train.config import flatten, make_config
from tinyattn.train.parallel.mpi import ProcessGroup

from ..conftest import TEXT

COSTS = Costs(step=0.01, evaluated_token=1e-5, sampled_token=1e-3, state=0.01)


@pytest.fixture
def fast_machine(monkeypatch):
    """A machine on which every candidate takes 10 ms per step, and no time passes before training."""
    measured = []

    def measure(trainer, seconds):
        measured.append(flatten(trainer.config))
        return COSTS

    monkeypatch.setattr(time_budget, "measure", measure)
    monkeypatch.setattr(time_budget.time, "perf_counter", lambda: 0.0)
    return measured


@pytest.fixture
def few_steps(monkeypatch):
    """The text is said to be read hardly once, so that a real run ends after few steps on any machine."""
    monkeypatch.setattr(rule, "MOST_EPOCHS", 0.1)
    monkeypatch.setattr(time_budget, "_LONGEST_TRIAL", 0.01)


def plan(minutes, text_file, tmp_path, **options):
    options = {"data": str(text_file), "workers": 1, **options}
    budget = TimeBudget(minutes, options)
    trainer = begin(budget.first_config, tmp_path / "run", budget=budget)
    trainer.run.unlock()
    return flatten(trainer.config), budget.plan


def test_the_planned_time_is_that_of_steps_evaluations_samples_and_states(
    fast_machine, text_file, tmp_path
):
    given = {"layers": 1, "heads": 2, "dim": 16, "block_size": 8, "batch_size": 1}
    options, planned = plan(0.2, text_file, tmp_path, **given)
    assert planned.seconds == pytest.approx(0.97 * 12, abs=0.02)
    evaluation = (len(TEXT) // 10) * COSTS.evaluated_token + 2 * COSTS.state
    sample = 200 * COSTS.sampled_token
    samples = options["steps"] // options["sample_every"]
    rest = 20 * evaluation + samples * sample + COSTS.state + time_budget.PICTURE_SECONDS
    assert options["steps"] == pytest.approx((0.97 * 12 - rest) / COSTS.step, abs=25)
    assert not planned.ends_early
    assert [options[name] for name in given] == list(given.values())


def test_a_run_on_a_short_text_ends_early(fast_machine, text_file, tmp_path):
    options, planned = plan(60, text_file, tmp_path)
    assert planned.ends_early and planned.seconds < 600
    assert options["dropout"] > 0.1


def test_a_given_interval_of_evaluations_costs_steps(fast_machine, text_file, tmp_path):
    given = {"layers": 1, "dim": 16, "block_size": 8, "batch_size": 1, "sample_every": 0}
    few, _ = plan(0.2, text_file, tmp_path / "few", evaluate_every=100, **given)
    many, _ = plan(0.2, text_file, tmp_path / "many", evaluate_every=2, **given)
    assert (few["evaluate_every"], many["evaluate_every"]) == (100, 2)
    assert many["steps"] < 0.7 * few["steps"]


def test_each_candidate_is_measured_once_and_the_chosen_one_last(fast_machine, text_file, tmp_path):
    options, _ = plan(1, text_file, tmp_path)
    names = ("layers", "heads", "dim", "block_size", "batch_size")
    sizes = [tuple(one[name] for name in names) for one in fast_machine]
    assert len(set(sizes)) == len(sizes)
    assert sizes[-1] == tuple(options[name] for name in names)


@pytest.mark.parametrize(
    "given",
    [
        {"preset": "nanogpt-cpu", "dim": 16, "block_size": 8},
        {"preset": "gpt2-shaped"},
        {"attention": "window", "window": 4},
        {"attention": "linear"},
        {"model": "rnn"},
        {"model": "cnn"},
        {"model": "encoder"},
        {"tokenizer": "bytes"},
        {"optimizer": "adamw", "learning_rate": 0.002},
        {"dtype": "float64"},
    ],
)
def test_other_models_are_measured_and_trained(few_steps, text_file, tmp_path, display, given):
    options = {"data": str(text_file), "workers": 1, "layers": 1, "sample_length": 3, **given}
    budget = TimeBudget(1000, options)
    trainer = begin(budget.first_config, tmp_path / "run", budget=budget)
    assert trainer.train(display)
    values = flatten(trainer.config)
    assert {name: values[name] for name in options} == options
    assert values["steps"] == trainer.step == 20
    assert len(display.evaluations) == 20


def test_a_preset_keeps_its_size_and_its_optimizer(fast_machine, text_file, tmp_path):
    options, _ = plan(1, text_file, tmp_path, preset="nanogpt-cpu", block_size=16)
    expected = flatten(make_config(preset="nanogpt-cpu"))
    for name in ("layers", "heads", "dim", "batch_size", "optimizer", "learning_rate", "dropout"):
        assert options[name] == expected[name]
    assert options["steps"] != expected["steps"]


def test_a_model_to_start_from_keeps_its_size(few_steps, text_file, tmp_path, display, gpt2_folder):
    options = {"from_": str(gpt2_folder), "data": str(text_file), "workers": 1, "block_size": 8}
    budget = TimeBudget(1000, options)
    trainer = begin(budget.first_config, tmp_path / "run", budget=budget)
    before = ta.models.GPT.from_pretrained(gpt2_folder).state_dict()
    for name, array in trainer.model.state_dict().items():
        if name != "positions.weight":  # of which the first ones are used
            assert np.array_equal(array, before[name]), "a trial changed the weights"
    assert trainer.train(display)
    assert flatten(trainer.config)["dim"] == 16


def test_the_trial_leaves_the_run_unchanged_and_the_run_is_resumed_bit_identically(
    few_steps, text_file, tmp_path, display
):
    options = {"data": str(text_file), "workers": 2, "layers": 2, "dim": 16, "dropout": 0.1}
    before = ta.manual_seed(7).state
    budget = TimeBudget(1000, options)
    trainer = begin(budget.first_config, tmp_path / "first", budget=budget)
    config = trainer.config
    assert ta.backend.random.default_random().state == before
    assert trainer.train(display)

    again = begin(make_config({**flatten(config), "out": None}), tmp_path / "again")
    again.train(display, should_stop=lambda: again.step == 7)
    assert resume(tmp_path / "again").train(display)
    for state in ("best", "last"):
        first = (tmp_path / "first" / state / "model.safetensors").read_bytes()
        assert first == (tmp_path / "again" / state / "model.safetensors").read_bytes()


def test_steps_cannot_be_given_too():
    with pytest.raises(InputError, match="leave out --steps"):
        TimeBudget(1, {"steps": 5})


def test_a_time_too_short_is_refused_with_one_that_is_long_enough(
    fast_machine, text_file, tmp_path
):
    with pytest.raises(InputError, match=r"a run takes at least [0-9.]+ minutes here") as caught:
        plan(0.001, text_file, tmp_path)
    assert not (tmp_path / "run").exists()
    shortest = float(str(caught.value).split()[-3])
    options, _ = plan(shortest, text_file, tmp_path)
    assert 20 <= options["steps"] < 100


def test_all_processes_plan_with_the_times_of_the_first(fast_machine, text_file):
    class Second:
        """A communicator whose first process has sent its values."""

        def __init__(self, sent):
            self.sent = iter(sent)

        def Get_rank(self):
            return 1

        def Get_size(self):
            return 2

        def bcast(self, value):
            return next(self.sent)

    size = {"layers": 1, "dim": 16, "block_size": 8, "batch_size": 1}
    options = {"data": str(text_file), "workers": 1, **size}
    dataset = TextDataset.load(str(text_file), 1)
    configs = []
    sent = []
    first = ProcessGroup()
    first.broadcast = lambda function: sent.append(function()) or sent[-1]
    for processes in (first, ProcessGroup(Second(sent))):
        budget = TimeBudget(0.3, options, began=-2.0 if processes is first else -9.0)

        class Trainer:
            def __init__(self, config):
                self.config = config

        configs.append(budget.choose(budget.first_config, dataset, Trainer, processes))
    assert configs[0] == configs[1]
