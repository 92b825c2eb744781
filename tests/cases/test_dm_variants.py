"""Hard case DM-16: a checkpoint restores the variant of the activation it was trained with."""

import dataclasses
import json

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.data import CharVocabulary, InputError
from tinyattn.train.config import make_config
from tinyattn.train.loading import load_run, make_model
from tinyattn.train.storage.run_directory import RunDirectory

SMALL = {"layers": 1, "heads": 2, "dim": 8, "block_size": 8}


def logits(model):
    with ta.no_grad():
        return model(ta.tensor([[0, 1, 2, 1]], device=model.device)).numpy()


def saved(path, activation):
    """A run whose only state is a new model with that activation."""
    config = make_config(SMALL, activation=activation)
    vocabulary = CharVocabulary("abc")
    run = RunDirectory.create(path, config, vocabulary)
    model = make_model(config, len(vocabulary), ta.backend.Random(0)).eval()
    with ta.no_grad():
        for parameter in model.parameters():
            parameter.data = parameter.numpy() * 20  # so that the two variants differ visibly
    run.write_states(["last"], model.state_dict(), {}, {"step": 0})
    return run, model


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh"])
def test_DM_16_the_variant_is_part_of_the_checkpoint_and_honoured(tmp_path, activation):
    run, model = saved(tmp_path / "run", activation)
    loaded = load_run(run.path)
    assert loaded.config.architecture.activation == activation
    assert np.array_equal(logits(loaded.model), logits(model))


def test_DM_16_the_two_variants_differ_and_neither_replaces_the_other(tmp_path):
    run, model = saved(tmp_path / "run", "gelu")
    config = make_config(SMALL, activation="gelu_tanh")
    other = make_model(config, 3, ta.backend.Random(0)).eval()
    other.load_state_dict(run.read("last").model)
    assert np.abs(logits(other) - logits(model)).max() > 1e-6


def test_DM_16_an_unknown_variant_is_refused():
    with pytest.raises(InputError, match="gelu_tahn"):
        make_config(SMALL, activation="gelu_tahn")
    with pytest.raises(ValueError, match="gelu_tahn"):
        ta.models.GPT(ta.models.GPTConfig(vocabulary_size=3, activation="gelu_tahn"))
    with pytest.raises(ValueError, match="approximate='tahn'"):
        ta.gelu(ta.tensor([1.0]), approximate="tahn")


def test_DM_16_the_variant_survives_json():
    config = ta.models.GPTConfig(vocabulary_size=3, activation="gelu_tanh")
    text = json.dumps(dataclasses.asdict(config))
    assert ta.models.GPTConfig(**json.loads(text)) == config
