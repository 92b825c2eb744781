"""Configurations: keyword arguments only, unknown names raise with a suggestion, and GPT-2's settings."""

import inspect

import numpy as np
import pytest

from tinyattn.models import GPT, CNNConfig, EncoderConfig, GPTConfig, RNNConfig
from tinyattn.models.config import OTHER_NAMES

CONFIGS = pytest.mark.parametrize("config", [GPTConfig, EncoderConfig, RNNConfig, CNNConfig])


@pytest.mark.parametrize("name, own", OTHER_NAMES.items())
def test_names_of_other_libraries_are_refused_with_the_name_here(name, own):
    with pytest.raises(
        TypeError, match=f"GPTConfig has no setting {name}: it is called {own} here"
    ):
        GPTConfig(**{name: 4})
    assert own in inspect.signature(GPTConfig).parameters


@CONFIGS
def test_a_misspelled_or_unknown_setting_is_refused(config):
    with pytest.raises(TypeError, match=r"no setting block_sise: did you mean block_size\?"):
        config(block_sise=4)
    with pytest.raises(TypeError, match="no setting xyz: expected vocabulary_size, layers, dim"):
        config(xyz=4)


def test_a_setting_that_the_model_lacks_is_not_suggested():
    with pytest.raises(TypeError, match="RNNConfig has no setting n_head: expected"):
        RNNConfig(n_head=2)


@CONFIGS
def test_settings_by_position_are_refused(config):
    with pytest.raises(TypeError, match=r"takes keyword arguments only, got \(65,\)"):
        config(65)


@CONFIGS
def test_values_out_of_range_are_refused_and_numpys_numbers_accepted(config):
    with pytest.raises(ValueError, match="vocabulary_size must be at least 1, given 0"):
        config(vocabulary_size=0)
    with pytest.raises(ValueError, match="dropout must be at least 0 and below 1"):
        config(dropout=1.5)
    assert config(vocabulary_size=np.int64(7)).vocabulary_size == 7


def test_gpt2_has_its_size_and_its_parts_and_takes_other_settings():
    config = GPTConfig.gpt2()
    assert (config.vocabulary_size, config.block_size) == (50257, 1024)
    assert (config.layers, config.heads, config.dim) == (12, 12, 768)
    # Embedding and positions; each block's matrices, biases and two norms; the last norm.
    model = GPT(GPTConfig.gpt2(vocabulary_size=11, block_size=8, layers=2, heads=2, dim=16))
    assert model.parameter_count() == 11 * 16 + 8 * 16 + 2 * (12 * 16**2 + 13 * 16) + 2 * 16
    with pytest.raises(TypeError, match="n_layer: it is called layers here"):
        GPTConfig.gpt2(n_layer=2)
