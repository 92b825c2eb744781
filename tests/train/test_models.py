"""Each model is trained, saved and evaluated by the same code."""

import pytest

from tinyattn.data import InputError
from tinyattn.train.config import make_config
from tinyattn.train.evaluation import evaluate
from tinyattn.train.session import begin, load_run, resume


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


def test_the_encoder_is_post_norm_by_default(tmp_path, tiny):
    def norm(name, **options):
        trainer = begin(make_config(tiny, **options), tmp_path / name)
        return trainer.model.blocks[0].norm

    assert norm("gpt") == "pre"
    assert norm("encoder", model="encoder") == "post"
    assert norm("given", model="encoder", norm="pre") == "pre"


def test_an_encoders_evaluation_masks_the_same_characters_each_time(tmp_path, tiny):
    trainer = begin(make_config(tiny, model="encoder"), tmp_path / "run")
    assert trainer.evaluate().validation_loss == trainer.evaluate().validation_loss


def test_an_evaluation_does_not_depend_on_the_number_of_workers(
    tmp_path, tiny, monkeypatch, executor_of
):
    from tinyattn.train import evaluation

    monkeypatch.setattr(evaluation, "CHARACTERS_AT_ONCE", 16)
    trainer = begin(make_config(tiny), tmp_path / "run")
    ids = trainer.dataset.validation
    alone = evaluate(trainer.model, ids, 8)
    for processes in (False, True):
        workers = executor_of(trainer.model, 3, processes)
        assert evaluate(trainer.model, ids, 8, executor=workers) == alone


def test_the_number_of_workers_is_stored(tmp_path, tiny):
    trainer = begin(make_config(tiny, workers=3), tmp_path / "run")
    assert trainer.step_function.executor.workers == 3
    del tiny["workers"]
    begin(make_config(tiny), tmp_path / "default")
    from tinyattn.train.storage.run_directory import RunDirectory

    assert RunDirectory.open(tmp_path / "default").config().run.workers >= 1


def test_options_that_the_model_rejects_are_input_errors(tmp_path, tiny):
    with pytest.raises(InputError, match="no model can be built"):
        begin(make_config(tiny, attention="linear", positions="alibi"), tmp_path / "run")
