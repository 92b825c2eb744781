"""The training loop, its files, and its errors."""

import errno
import json
import math
import os

import numpy as np
import pytest

from tinyattn.data import CharVocabulary
from tinyattn.train import begin, load_run, resume
from tinyattn.train.config import make_config
from tinyattn.train.evaluation import evaluate
from tinyattn.train.reports import DisplayError
from tinyattn.train.storage.metrics import QUANTITIES, read_metrics
from tinyattn.train.storage.run_directory import RunDirectory
from tinyattn.train.trainer import NonFiniteError, snapshot_steps


def test_a_run_writes_all_documented_files(tmp_path, tiny, display):
    trainer = begin(make_config(tiny, snapshots=4, sample_every=10), tmp_path / "run")
    assert trainer.train(display)
    run = RunDirectory.open(tmp_path / "run")
    assert run.config() == make_config(tiny, snapshots=4, sample_every=10)
    assert run.vocabulary() == CharVocabulary.from_text(open(tiny["data"]).read())
    assert run.snapshot_steps() == [0, 5, 10, 15]
    lines = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert [line["step"] for line in lines if "loss" in line] == list(range(1, 16))
    assert [line["step"] for line in lines if "val_loss" in line] == [5, 10, 15]
    assert {name for line in lines for name in line} <= {"step", *QUANTITIES}
    assert [step for step, _ in display.samples] == [10, 15]
    best = min(lines, key=lambda line: line.get("val_loss", math.inf))
    state = run.read_state("best")
    assert (state["step"], round(state["best_loss"], 6)) == (best["step"], best["val_loss"])
    json.loads((tmp_path / "run" / "last" / "state.json").read_text())


def test_a_loaded_run_has_the_saved_weights(tmp_path, tiny, display):
    trainer = begin(make_config(tiny), tmp_path / "run")
    trainer.train(display)
    loaded = load_run(tmp_path / "run", "last")
    assert not loaded.model.training
    block = trainer.config.architecture.block_size
    again = evaluate(loaded.model, trainer.dataset.validation, block)
    assert again == display.evaluations[-1].validation_loss
    assert (loaded.step, loaded.vocabulary) == (15, trainer.dataset.vocabulary)


def test_training_learns(tmp_path, tiny, display):
    tiny.update(dropout=0.0, steps=60, evaluate_every=60, dim=32)
    begin(make_config(tiny), tmp_path / "run").train(display)
    assert display.evaluations[-1].validation_loss < display.evaluations[-1].baselines["bigram"]


def test_an_untrained_model_has_the_loss_of_uniform_predictions(tmp_path, tiny):
    trainer = begin(make_config(tiny), tmp_path / "run")
    uniform = math.log(len(trainer.dataset.vocabulary))
    assert trainer.evaluate().validation_loss == pytest.approx(uniform, rel=0.02)


@pytest.mark.parametrize("broken", ["loss", "gradient"])
def test_a_non_finite_loss_or_gradient_stops_the_run_and_keeps_the_last_state(
    tmp_path, tiny, display, broken
):
    trainer = begin(make_config(tiny), tmp_path / "run")
    plain = trainer.step_function

    class Breaking:
        executor = plain.executor

        def __call__(self, inputs, targets, key):
            loss = plain(inputs, targets, key)
            if trainer.step == 6:
                if broken == "loss":
                    return math.nan
                trainer.model.blocks[1].feed_forward.expand.weight.grad.data[0, 0] = np.inf
            return loss

    trainer.step_function = Breaking()
    name = "the loss" if broken == "loss" else r"the gradient of blocks\.1\.feed_forward\.expand"
    with pytest.raises(NonFiniteError, match=rf"step 7: {name}.*not finite .*learning rate 0\.00"):
        trainer.train(display)
    run = RunDirectory.open(tmp_path / "run")
    assert run.read_state("last")["step"] == 5
    assert all(np.isfinite(array).all() for array in run.read("last").model.values())
    assert len(read_metrics(tmp_path / "run" / "metrics.jsonl")) == 7  # 6 steps, 1 evaluation


def test_a_non_finite_validation_loss_is_not_saved(tmp_path, tiny, display, monkeypatch):
    trainer = begin(make_config(tiny), tmp_path / "run")
    monkeypatch.setattr("tinyattn.train.trainer.evaluate", lambda *arguments, **options: math.nan)
    with pytest.raises(NonFiniteError, match="step 5: the validation loss is not finite"):
        trainer.train(display)
    assert RunDirectory.open(tmp_path / "run").read_state("last")["step"] == 0


@pytest.mark.parametrize("at", [3, 5])
def test_non_finite_weights_never_replace_a_good_state(tmp_path, tiny, display, at):
    tiny.update(evaluate_every=5 if at == 5 else 100, snapshots=16)
    trainer = begin(make_config(tiny), tmp_path / "run")
    update = trainer.optimizers.step

    def diverge(executor):
        update(executor)
        if trainer.step == at:
            trainer.model.blocks[1].norm1.weight.data[0] = np.nan

    trainer.optimizers.step = diverge
    message = (
        r"step \d: (the weights blocks\.1\.norm1\.weight are|the validation loss is) not finite"
    )
    with pytest.raises(NonFiniteError, match=message):
        trainer.train(display, should_stop=lambda: trainer.step == at)
    run = RunDirectory.open(tmp_path / "run")
    assert run.read_state("last")["step"] == 0
    assert all(np.isfinite(array).all() for array in run.read("last").model.values())
    assert run.snapshot_steps() == list(range(at))


@pytest.mark.parametrize("method", ["step", "evaluating", "evaluation", "sample"])
@pytest.mark.parametrize("number", [errno.EPIPE, errno.EIO, errno.ENOSPC])
def test_a_display_that_cannot_write_loses_no_step(tmp_path, tiny, display, method, number):
    tiny.update(sample_every=3, sample_length=4)
    begin(make_config(tiny), tmp_path / "straight").train(display)
    trainer = begin(make_config(tiny), tmp_path / "run")
    calls = []

    def fail(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise OSError(number, os.strerror(number))

    setattr(display, method, fail)
    with pytest.raises(DisplayError, match=os.strerror(number)):
        trainer.train(display)
    step = RunDirectory.open(tmp_path / "run").read_state("last")["step"]
    assert step == trainer.step > 1
    assert resume(tmp_path / "run").train(display)
    states = [RunDirectory.open(tmp_path / name).read("last") for name in ("straight", "run")]
    for name, array in states[0].model.items():
        assert np.array_equal(array, states[1].model[name]), name


def test_non_finite_logits_of_a_sample_stop_the_run(tmp_path, tiny, display):
    tiny.update(evaluate_every=100, sample_every=2)
    trainer = begin(make_config(tiny), tmp_path / "run")
    update = trainer.optimizers.step

    def break_weights(executor):
        update(executor)
        if trainer.step == 4:
            trainer.model.embedding.weight.data[...] = np.inf

    trainer.optimizers.step = break_weights
    with pytest.raises(NonFiniteError, match=r"step 4: .* logits are .* cannot be sampled"):
        trainer.train(display)


def test_snapshots_are_evenly_spaced():
    assert snapshot_steps(300, 0) == set()
    assert snapshot_steps(300, 1) == {300}
    assert snapshot_steps(300, 4) == {0, 100, 200, 300}


@pytest.mark.parametrize("model", ["gpt", "encoder", "rnn", "cnn"])
def test_every_model_trains_and_resumes(tmp_path, tiny, display, model):
    tiny.update(model=model, sample_every=15, sample_length=4, workers=2)
    begin(make_config(tiny, stop_after=6), tmp_path / "run").train(display)
    assert resume(tmp_path / "run").train(display)
    assert len(display.samples) == (0 if model == "encoder" else 1)
    first, last = display.evaluations[0], display.evaluations[-1]
    assert last.validation_loss < first.validation_loss
    loaded = load_run(tmp_path / "run")
    assert type(loaded.model).__name__.lower() == model
