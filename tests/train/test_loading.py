"""A run or a folder is loaded alike; a folder that cannot be used is named."""

import json

import numpy as np
import pytest

from tinyattn.data import InputError
from tinyattn.models import GPT
from tinyattn.train import begin, load_model, load_run, make_config


def test_a_folder_generates_text_like_a_run(gpt2_folder):
    loaded = load_model(gpt2_folder)
    text = loaded.generate("the ", 30, seed=1)
    assert text.startswith("the ") and len(text) == 34
    assert loaded.generate("the ", 30, seed=1) == text
    np.testing.assert_array_equal(
        loaded.model([[1, 2]]).numpy(), GPT.from_pretrained(gpt2_folder)([[1, 2]]).numpy()
    )
    assert loaded.model.config.dropout == 0


def test_a_run_is_loaded_as_by_load_run(tmp_path, tiny, display):
    begin(make_config(tiny), tmp_path / "run").train(display)
    assert load_model(tmp_path / "run").generate(seed=1) == load_run(tmp_path / "run").generate(
        seed=1
    )


def test_a_folder_has_no_states(gpt2_folder):
    with pytest.raises(InputError, match="leave out --state"):
        load_model(gpt2_folder, "best")


def test_a_folder_is_not_a_run(gpt2_folder):
    with pytest.raises(InputError, match="is a pretrained model, not a run"):
        load_run(gpt2_folder)


def test_a_tokenizer_that_does_not_fit_the_model_is_refused(gpt2_folder):
    path = gpt2_folder / "tokenizer.json"
    values = json.loads(path.read_text())
    values["model"]["vocab"]["☃"] = len(values["model"]["vocab"])
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match="31 characters, and its model has a vocab_size of 30"):
        load_model(gpt2_folder)
    path.unlink()
    with pytest.raises(InputError, match="has no tokenizer"):
        load_model(gpt2_folder)


def test_text_ends_at_the_end_of_text_token(gpt2_folder, monkeypatch):
    loaded = load_model(gpt2_folder)
    text = loaded.generate("the ", 30, temperature=0)
    monkeypatch.setattr(
        type(loaded.vocabulary), "end_of_text", loaded.vocabulary.encode(text[9])[0]
    )
    assert loaded.generate("the ", 30, temperature=0) == text[: text.index(text[9], 4)]
