"""Evaluation of a fixed sample of a long text, with progress, and stopped on request."""

import math
import time

import numpy as np
import pytest

from tinyattn.models import GPT, GPTConfig
from tinyattn.train.config import make_config
from tinyattn.train.evaluation import Stopped, evaluate, evaluated_tokens
from tinyattn.train.parallel import ThreadExecutor
from tinyattn.train.session import begin, resume
from tinyattn.train.storage.metrics import read_metrics
from tinyattn.train.storage.run_directory import RunDirectory

from .test_session import assert_equal_to_the_bit


def model_of(vocabulary_size=7):
    return GPT(GPTConfig(vocabulary_size=vocabulary_size, block_size=8, layers=1, heads=2, dim=8))


@pytest.fixture
def ids():
    return np.random.default_rng(3).integers(0, 7, 4001).astype(np.uint8)


def test_a_sample_consists_of_complete_evenly_spaced_windows(ids):
    model, seen = model_of(), []
    loss = model.loss

    def keep(inputs, targets):
        seen.extend(np.asarray(targets))
        return loss(inputs, targets)

    model.loss = keep
    evaluate(model, ids, 8, tokens=404)
    # 50 of the 500 windows, every tenth.
    assert np.array_equal(seen, [ids[i * 80 + 1 : i * 80 + 9] for i in range(50)])
    assert evaluated_tokens(len(ids), 8, 404) == 400


@pytest.mark.parametrize("tokens", [None, 4000, 10**6])
def test_a_short_text_is_evaluated_completely(ids, tokens):
    model = model_of()
    assert evaluate(model, ids, 8, tokens=tokens) == evaluate(model, ids, 8)
    assert evaluated_tokens(len(ids), 8, tokens) == 4000


@pytest.mark.parametrize("tokens", [1, 100, 1999])
def test_a_sample_has_the_reported_number_of_tokens(ids, tokens):
    reported = []
    evaluate(model_of(), ids, 8, tokens=tokens, watch=lambda *numbers: reported.append(numbers))
    assert reported[-1] == (evaluated_tokens(4001, 8, tokens),) * 2
    assert reported[-1][0] <= max(tokens, 8)


def test_the_loss_is_the_same_for_every_number_of_workers_and_every_speed(ids, monkeypatch):
    model = model_of()
    alone = evaluate(model, ids, 8)
    executor = ThreadExecutor(model, workers=3)
    assert evaluate(model, ids, 8, None, executor) == alone
    executor.close()
    ticks = iter(range(10**6))
    monkeypatch.setattr("time.perf_counter", lambda: next(ticks))  # everything takes long
    assert evaluate(model, ids, 8) == alone


def test_watch_is_called_every_second_and_can_stop_the_evaluation(ids):
    model = model_of()
    loss = model.loss

    def slow(inputs, targets):
        time.sleep(0.05)
        return loss(inputs, targets)

    model.loss = slow
    long = np.tile(ids, 15)  # 30 batches, 1.5 s
    times = [time.perf_counter()]
    evaluate(model, long, 8, watch=lambda *numbers: times.append(time.perf_counter()))
    assert len(times) > 4

    def stop(done, total):
        assert done < total
        raise Stopped

    with pytest.raises(Stopped):
        evaluate(model, long, 8, watch=stop)
    assert model.training


def test_an_interrupted_evaluation_is_repeated_on_resumption(tmp_path, tiny, display):
    tiny.update(sample_every=5, sample_length=4)
    begin(make_config(tiny), tmp_path / "straight").train(display)
    expected = display.evaluations, display.samples

    for step, when in [(10, "evaluating"), (15, "evaluating"), (10, "sampling"), (15, "sampling")]:
        path = tmp_path / f"{when}-{step}"
        display.evaluations, display.samples, display.progress = [], [], []
        trainer = begin(make_config(tiny), path)
        plain = trainer.sample

        def asked(trainer=trainer, step=step, when=when):
            at_work = display.progress[-1:] == [(step, 98, 98)]
            return at_work and (when == "evaluating" or trainer.sampling)

        def sample(should_stop, trainer=trainer, plain=plain):
            trainer.sampling = True
            text = plain(should_stop)
            trainer.sampling = False
            return text

        trainer.sampling, trainer.sample = False, sample
        assert not trainer.train(display, asked)
        state = RunDirectory.open(path).read_state("last")
        assert state["evaluated_step"] < state["step"] == step
        assert not any(
            line["step"] == step and "val_loss" in line
            for line in read_metrics(path / "metrics.jsonl")
        )
        assert resume(path).train(display)
        assert_equal_to_the_bit(tmp_path / "straight", path)
        assert [(r.step, r.validation_loss, r.best) for r in display.evaluations] == [
            (r.step, r.validation_loss, r.best) for r in expected[0]
        ]
        assert display.samples == expected[1]
        assert RunDirectory.open(path).read_state("best") is not None


def test_the_report_contains_the_number_of_evaluated_tokens(tmp_path, tiny):
    tiny["evaluate_characters"] = 40
    trainer = begin(make_config(tiny), tmp_path / "run")
    report = trainer.evaluate()
    assert (report.tokens, report.validation_tokens, report.unit) == (40, 98, "character")
    assert math.isfinite(report.validation_loss)


def test_an_encoders_evaluation_masks_the_same_characters_each_time(tmp_path, tiny):
    trainer = begin(make_config(tiny, model="encoder"), tmp_path / "run")
    assert trainer.evaluate().validation_loss == trainer.evaluate().validation_loss


def test_an_evaluation_does_not_depend_on_the_number_of_workers(
    tmp_path, tiny, monkeypatch, executor_of
):
    monkeypatch.setattr("tinyattn.train.evaluation.TOKENS_AT_ONCE", 16)
    trainer = begin(make_config(tiny), tmp_path / "run")
    ids = trainer.dataset.validation
    alone = evaluate(trainer.model, ids, 8)
    for processes in (False, True):
        workers = executor_of(trainer.model, 3, processes)
        assert evaluate(trainer.model, ids, 8, executor=workers) == alone


def test_evaluation_covers_the_text_once_and_restores_the_mode(tmp_path, tiny, monkeypatch):
    trainer = begin(make_config(tiny), tmp_path / "run")
    model, ids = trainer.model, trainer.dataset.validation
    model.blocks[0].eval()  # a part that the user froze stays so
    modes = [module.training for module in model.modules()]
    full = evaluate(model, ids, 8)
    assert [module.training for module in model.modules()] == modes
    assert trainer.model.blocks[1].dropout.training
    assert evaluate(model, ids, 8) == full  # no dropout: the same again

    # The loss of one window after the other, the short one at the end included.
    model.eval()
    total = 0.0
    for start in range(0, len(ids) - 1, 8):
        window = ids[start : start + 9].astype(np.int64)
        total += model.loss(window[None, :-1], window[None, 1:]).item() * (len(window) - 1)
    assert full == pytest.approx(total / (len(ids) - 1), rel=1e-5)

    model.train()
    monkeypatch.setattr(model, "loss", lambda ids, targets: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        evaluate(model, ids, 8)
    assert all(module.training for module in model.modules())
