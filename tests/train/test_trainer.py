"""The training loop, its files, and its errors."""

import errno
import json
import math
import os

import numpy as np
import pytest

from tinyattn.data import CharVocabulary, InputError
from tinyattn.models import GPT, GPTConfig
from tinyattn.train.build import build_optimizers
from tinyattn.train.config import make_config
from tinyattn.train.evaluation import evaluate
from tinyattn.train.reports import DisplayError
from tinyattn.train.session import begin, load_run, new_directory, resume
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


def test_weight_decay_is_for_matrices_and_a_tied_weight_is_updated_once():
    model = GPT(GPTConfig.gpt2(vocabulary_size=9, block_size=8, layers=1, heads=2, dim=16))
    for kind in ("adamw", "muon"):
        optimizers = build_optimizers(model, make_config(optimizer=kind))
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        seen = []
        for optimizer in optimizers.members.values():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    seen.append(names[id(parameter)])
                    if group["weight_decay"]:
                        assert parameter.ndim == 2
        assert sorted(seen) == sorted(names.values())
    decaying = optimizers.members["adamw"].param_groups[0]
    assert decaying["weight_decay"] == 0.1


def test_muon_updates_the_matrices_of_the_blocks_only():
    config = GPTConfig.gpt2(
        vocabulary_size=9, block_size=8, layers=2, heads=2, dim=16, tie_head=False
    )
    model = GPT(config)
    layers = ("query", "key", "value", "project")
    expected = {
        f"blocks.{block}.{name}.weight"
        for block in range(2)
        for name in (
            *(f"attention.{layer}" for layer in layers),
            "feed_forward.expand",
            "feed_forward.contract",
        )
    }
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    muon = build_optimizers(model, make_config()).members["muon"]
    given = {names[id(p)] for group in muon.param_groups for p in group["params"]}
    assert given == expected


def rates(count=None, **options):
    model = GPT(GPTConfig.gpt2(vocabulary_size=9, block_size=8, layers=1, heads=2, dim=16))
    config = make_config(optimizer="adamw", **options)
    optimizers = build_optimizers(model, config)
    return [optimizers.set_learning_rate(step) for step in range(count or config.run.steps)]


def test_the_learning_rate_follows_warmup_and_decay_without_dividing_by_zero():
    options = {"steps": 7, "learning_rate": 1.0, "final_share": 0.1}
    shape = {"warmup_steps": 4, "decay_steps": 4, "decay_share": 1.0, "decay": "cosine"}
    assert rates(**options, **shape) == pytest.approx([0.2, 0.4, 0.6, 0.8, 1, 0.1, 0.1])
    shape["warmup_steps"] = 0
    assert len(rates(**options, **shape)) == 7
    constant = rates(steps=3, learning_rate=1.0, decay="none", warmup_steps=1)
    assert constant == pytest.approx([0.5, 1, 1])


def test_the_fast_preset_is_a_trapezoid_that_decays_in_the_last_half():
    values = rates(count=301, preset="fast")
    peak = make_config().optimization.learning_rate
    assert values[:10] == pytest.approx([peak * (i + 1) / 11 for i in range(10)])
    assert set(np.round(values[10:151], 12)) == {peak}
    assert values[225] == pytest.approx(peak / 2)
    assert values[300] == 0


def test_the_nanogpt_preset_is_a_cosine_decay_to_a_tenth():
    values = rates(count=2001, preset="nanogpt-cpu")
    assert values[99] == pytest.approx(1e-3 * 100 / 101)
    assert values[100] == pytest.approx(1e-3)
    assert values[1050] == pytest.approx(5.5e-4)
    assert values[2000] == pytest.approx(1e-4)


def test_snapshots_are_evenly_spaced():
    assert snapshot_steps(300, 0) == set()
    assert snapshot_steps(300, 1) == {300}
    assert snapshot_steps(300, 4) == {0, 100, 200, 300}


def test_a_text_that_is_too_short_is_an_error_before_a_directory_is_created(tmp_path, tiny):
    with pytest.raises(InputError, match="too short for blocks of 2000"):
        begin(make_config(tiny, block_size=2000), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_default_directory_is_a_new_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = []
    for _ in range(3):
        path = new_directory(make_config(data="some/text.txt"))
        assert path.is_dir()
        names.append(path.as_posix())
    assert names == ["runs/text-fast", "runs/text-fast-2", "runs/text-fast-3"]
