"""A trial measures what a run costs."""

import pytest

from tinyattn.train import begin
from tinyattn.train.budget.trial import measure
from tinyattn.train.config import make_config


@pytest.mark.parametrize(
    "options", [{}, {"workers": 2}, {"model": "encoder"}, {"device": "strict"}]
)
def test_the_costs_are_positive_and_the_workers_end(tiny, tmp_path, options):
    trainer = begin(make_config({**tiny, **options}), tmp_path / "run")
    try:
        costs = measure(trainer, 0.01)
    finally:
        trainer.run.unlock()
    assert costs.step > costs.evaluated_token > 0 and costs.state > 0
    assert (costs.sampled_token > 0) == (options.get("model") != "encoder")
    assert not getattr(trainer.step_function.executor, "_processes", [])
    assert trainer.step == 0


def test_absurd_options_do_not_stop_the_trial(tiny, tmp_path):
    trainer = begin(
        make_config(tiny, learning_rate=1e30, muon_learning_rate=1e30), tmp_path / "run"
    )
    try:
        assert measure(trainer, 0.01).step > 0
    finally:
        trainer.run.unlock()
