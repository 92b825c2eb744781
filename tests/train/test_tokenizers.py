"""Runs on bytes and byte pairs: their losses, their files, and resumption with the same tokenizer only."""

import json
import math

import numpy as np
import pytest

from tinyattn.data import BytePairTokenizer, InputError
from tinyattn.train import begin, load_run, make_config, resume
from tinyattn.train.storage.errors import DamagedFileError


@pytest.fixture(params=["characters", "bytes", "bpe"])
def options(request, tiny):
    """Options of a run with each tokenizer."""
    tiny.update(tokenizer=request.param, steps=6, evaluate_every=3, sample_every=3, sample_length=8)
    if request.param == "bpe":
        pytest.importorskip("tokenizers")
        tiny["vocabulary_size"] = 280
    return tiny


def test_an_interrupted_run_ends_with_the_same_bits(tmp_path, options):
    straight, parts = tmp_path / "straight", tmp_path / "parts"
    assert begin(make_config(options), straight).train()
    assert not begin(make_config(options, stop_after=2), parts).train()
    assert resume(parts).train()
    expected, found = load_run(straight), load_run(parts)
    assert found.vocabulary == expected.vocabulary
    for name, parameter in expected.model.named_parameters():
        np.testing.assert_array_equal(
            dict(found.model.named_parameters())[name].numpy(), parameter.numpy()
        )
    assert found.generate("the ", 5, seed=0) == expected.generate("the ", 5, seed=0)


def test_losses_are_recorded_in_bits_per_character_too(tmp_path, options, display):
    trainer = begin(make_config(options), tmp_path / "run")
    trainer.train(display)
    dataset = trainer.dataset
    lines = [line for line in trainer.run.read_metrics() if "val_loss" in line]
    share = dataset.evaluated(1_000_000)
    for line, report in zip(lines, display.evaluations, strict=True):
        expected = line["val_loss"] * share.tokens / share.characters / math.log(2)
        assert line["val_bits_per_character"] == pytest.approx(expected, rel=1e-5)
        assert report.bits_per_character == pytest.approx(expected, rel=1e-5)
        assert report.unit == dataset.vocabulary.unit
    step = display.steps[-1]
    ratio = step.bits_per_character * math.log(2) / step.loss  # tokens per character of the batch
    if options["tokenizer"] == "bpe":
        assert 0.1 < ratio < 0.9
    else:
        assert ratio == pytest.approx(1)


def test_another_tokenizer_cannot_continue_a_run(tmp_path, tiny):
    pytest.importorskip("tokenizers")
    tiny.update(tokenizer="bpe", vocabulary_size=280, steps=4, sample_every=0)
    run = tmp_path / "run"
    begin(make_config(tiny, stop_after=2), run).train()
    with pytest.raises(InputError, match="--tokenizer cannot change on resumption"):
        resume(run, {"tokenizer": "bytes"})
    other = BytePairTokenizer.from_text("another text, another tokenizer " * 20, 280)
    (run / "tokenizer.json").write_text(other.files()["tokenizer.json"], encoding="utf-8")
    with pytest.raises(DamagedFileError, match=r"tokenizer\.json is damaged or was changed"):
        resume(run)


def test_a_damaged_tokenizer_is_named(tmp_path, tiny):
    pytest.importorskip("tokenizers")
    tiny.update(tokenizer="bpe", vocabulary_size=280, steps=2, sample_every=0)
    run = tmp_path / "run"
    begin(make_config(tiny), run).train()
    content = json.loads((run / "tokenizer.json").read_text(encoding="utf-8"))
    del content["model"]["vocab"]["t"]
    (run / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DamagedFileError, match=r"tokenizer\.json is damaged"):
        load_run(run)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"vocabulary_size": 512}, "--vocabulary-size is for --tokenizer bpe"),
        ({"tokenizer": "bpe", "vocabulary_size": 256}, "expected at least 257"),
        ({"tokenizer": "words"}, "--tokenizer"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        make_config(options)
