"""A run that starts from a trained model has its architecture, tokenizer and weights, and resumes like any run."""

import dataclasses
import shutil

import numpy as np
import pytest

from tinyattn.data import InputError
from tinyattn.models import GPT
from tinyattn.train import begin, load_run, make_config, resume
from tinyattn.train.config import config_to_json, options_from_json

from .test_session import assert_equal_to_the_bit


@pytest.fixture
def finetune(gpt2_folder, text_file):
    """Options of a run of 10 steps that starts from a GPT-2."""
    return {
        "from_": str(gpt2_folder),
        "data": str(text_file),
        "steps": 10,
        "evaluate_every": 5,
        "sample_every": 0,
        "block_size": 8,
        "dropout": 0.1,
        "workers": 1,
    }


def weights(model):
    return {name: parameter.numpy() for name, parameter in model.named_parameters()}


def assert_same_weights(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], name)


def test_the_preset_and_the_folder_give_what_is_not_given(gpt2_folder, text_file):
    config = make_config(from_=str(gpt2_folder), data=str(text_file))
    assert config.run.preset == "finetune"
    assert config.optimization.learning_rate == 3e-5 and config.optimization.decay == "none"
    shape = config.architecture
    assert (shape.layers, shape.heads, shape.dim, shape.block_size) == (2, 2, 16, 16)
    assert (shape.positions, shape.bias, shape.qk_norm, shape.dropout) == (
        "learned",
        True,
        False,
        0,
    )
    other = make_config(from_=str(gpt2_folder), preset="fast", block_size=4, dropout=0.2)
    assert other.optimization.learning_rate == 0.012
    assert (other.architecture.block_size, other.architecture.dropout) == (4, 0.2)
    assert make_config(options_from_json(config_to_json(config))) == config


def test_step_0_has_the_weights_of_the_folder(gpt2_folder, finetune, tmp_path):
    trainer = begin(make_config(finetune), tmp_path / "run")
    expected = weights(GPT.from_pretrained(gpt2_folder, block_size=8))
    assert_same_weights(weights(trainer.model), expected)
    assert trainer.model.training and trainer.model.config.dropout == 0.1
    trainer.run.unlock()


def test_training_leaves_the_folder_unchanged(gpt2_folder, finetune, tmp_path, display):
    before = {path.name: path.read_bytes() for path in gpt2_folder.iterdir()}
    begin(make_config(finetune, learning_rate=0.1), tmp_path / "run").train(display)
    assert {path.name: path.read_bytes() for path in gpt2_folder.iterdir()} == before
    trained = weights(load_run(tmp_path / "run").model)
    assert not np.array_equal(
        trained["norm.weight"], weights(GPT.from_pretrained(gpt2_folder))["norm.weight"]
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_resumed_run_is_bit_identical_and_needs_the_folder_no_more(
    gpt2_folder, finetune, tmp_path, display, dtype
):
    finetune["dtype"] = dtype
    begin(make_config(finetune), tmp_path / "straight").train(display)
    assert not begin(make_config(finetune, stop_after=3), tmp_path / "parts").train(display)
    shutil.rmtree(gpt2_folder)
    assert resume(tmp_path / "parts").train(display)
    assert_equal_to_the_bit(tmp_path / "straight", tmp_path / "parts")


def test_a_run_can_start_from_a_run(finetune, tiny, tmp_path, display):
    begin(make_config(tiny), tmp_path / "first").train(display)
    del finetune["block_size"]
    config = make_config(finetune, from_=str(tmp_path / "first"))
    assert config.architecture.positions == "rotary" and config.architecture.block_size == 8
    trainer = begin(config, tmp_path / "second")
    assert_same_weights(weights(trainer.model), weights(load_run(tmp_path / "first").model))
    assert trainer.train(display)


def test_several_workers_train_from_a_folder(finetune, tmp_path, display):
    assert begin(make_config(finetune, workers=2), tmp_path / "run").train(display)


@pytest.mark.parametrize("device", ["strict"])
def test_another_device_trains_from_a_folder(finetune, tmp_path, display, device):
    trainer = begin(make_config(finetune, device=device, steps=2), tmp_path / "run")
    assert trainer.model.device == device
    assert trainer.train(display)


def test_the_tokenizer_of_the_folder_is_part_of_the_run(finetune, tmp_path, text_file, display):
    trainer = begin(make_config(finetune, steps=1), tmp_path / "run")
    trainer.train(display)
    assert load_run(tmp_path / "run").vocabulary == trainer.dataset.vocabulary
    text_file.write_text("☃" * 200)
    with pytest.raises(InputError, match="no id for '☃'"):
        begin(make_config(finetune), tmp_path / "other")


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("workers", [1, 2])
def test_frozen_parameters_do_not_change(
    gpt2_folder, finetune, tmp_path, display, optimizer, workers
):
    options = {"freeze": "embedding.*, blocks.0.*", "optimizer": optimizer, "workers": workers}
    begin(make_config(finetune, **options, learning_rate=0.01), tmp_path / "run").train(display)
    before = weights(GPT.from_pretrained(gpt2_folder, block_size=8))
    for name, after in weights(load_run(tmp_path / "run", "last").model).items():
        is_frozen = name.startswith(("embedding.", "blocks.0."))
        assert np.array_equal(after, before[name]) == is_frozen, name


def test_only_matrices_or_only_vectors_can_be_trained_by_muon(finetune, tmp_path, display):
    for number, pattern in enumerate(["*.bias, *norm*, embedding*, positions*", "*.weight"]):
        config = make_config(finetune, freeze=pattern, optimizer="muon", steps=2)
        assert begin(config, tmp_path / str(number)).train(display)
        assert resume(tmp_path / str(number), {"steps": 3}).train(display)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": 3}, "--layers 3 contradicts the model in .*gpt2, which has 2"),
        ({"positions": "rotary"}, "--positions 'rotary' contradicts"),
        ({"model": "rnn"}, "--model 'rnn' contradicts"),
        ({"tokenizer": "bytes"}, "--tokenizer 'bytes' contradicts .* which has 'characters'"),
        ({"vocabulary_size": 300}, "--vocabulary-size 300 contradicts .* which has its own"),
        ({"block_size": 17}, "--block-size must be at most 16, .* given 17"),
        ({"block_size": "x"}, "--block-size must be a whole number"),
        ({"from_": "nowhere"}, "there is no directory nowhere"),
        ({"from_": None, "preset": "finetune"}, "--preset finetune needs a trained model"),
    ],
)
def test_an_option_that_contradicts_the_model_is_refused(finetune, options, message):
    with pytest.raises(InputError, match=message):
        make_config({**finetune, **options})


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("norm.*, x.*", "no parameter matches 'x.\\*'; the model has embedding"), ("*", "leaves no")],
)
def test_a_pattern_that_freezes_nothing_or_everything_is_refused(
    finetune, tmp_path, pattern, message
):
    with pytest.raises(InputError, match=message):
        begin(make_config(finetune, freeze=pattern), tmp_path / "run")


def test_the_run_records_the_absolute_path_of_the_folder(
    gpt2_folder, finetune, tmp_path, monkeypatch
):
    monkeypatch.chdir(gpt2_folder.parent)
    trainer = begin(make_config(finetune, from_="gpt2"), tmp_path / "run")
    assert trainer.run.config().run.from_ == str(gpt2_folder)
    trainer.run.unlock()
    again = dataclasses.asdict(trainer.run.config())
    assert again["architecture"]["dropout"] == 0.1
