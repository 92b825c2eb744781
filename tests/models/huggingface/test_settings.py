"""config.json of a GPT-2 and GPTConfig: what is converted, and what is refused by name."""

import pytest

from tinyattn.data import InputError
from tinyattn.models import GPTConfig
from tinyattn.models.huggingface import differences, from_settings, to_settings

SMALL = {"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 8}


def test_what_a_file_leaves_out_is_as_in_gpt2():
    config = from_settings({"model_type": "gpt2"})
    assert config == GPTConfig.gpt2(dropout=0.1)


@pytest.mark.parametrize(
    "settings",
    [{}, {"tie_head": False, "dropout": 0.25}, {"feed_forward_dim": 12, "activation": "gelu"}],
)
def test_settings_survive_the_way_there_and_back(settings):
    config = GPTConfig.gpt2(layers=2, heads=2, dim=8, block_size=16, **settings)
    assert from_settings(to_settings(config)) == config


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"model_type": "llama"}, "model_type 'llama'"),
        ({}, "no model_type"),
        ({"run": {}, "architecture": {}}, "a run of tinyattn train"),
        ([], "JSON object"),
        ({**SMALL, "architectures": ["GPT2ForTokenClassification"]}, "GPT2ForTokenClassification"),
        ({**SMALL, "activation_function": "mish"}, "activation_function 'mish'"),
        ({**SMALL, "activation_function": ["gelu"]}, "activation_function"),
        ({**SMALL, "scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
        ({**SMALL, "reorder_and_upcast_attn": True}, "reorder_and_upcast_attn True"),
        ({**SMALL, "scale_attn_weights": False}, "scale_attn_weights False"),
        ({**SMALL, "add_cross_attention": True}, "add_cross_attention"),
        ({**SMALL, "layer_norm_epsilon": 1e-6}, "layer_norm_epsilon 1e-06"),
        ({**SMALL, "attn_pdrop": 0.2}, "attn_pdrop 0.2"),
        ({**SMALL, "n_head": 3}, "not a multiple of heads 3"),
        ({**SMALL, "n_layer": "1"}, "layers must be a whole number"),
        ({**SMALL, "n_embd": None}, "dim must be a whole number"),
    ],
)
def test_what_a_gpt_is_not_is_refused_by_name(values, reason):
    with pytest.raises(InputError, match=r"^FILE ") as error:
        from_settings(values, "FILE")
    assert reason in str(error.value)


def test_a_change_replaces_what_the_file_says():
    config = from_settings({**SMALL, "attn_pdrop": 0.2}, dropout=0.0, block_size=8)
    assert (config.dropout, config.block_size) == (0.0, 8)


def test_positions_beyond_the_files_are_refused():
    with pytest.raises(InputError, match="at most the 1024 positions of FILE, given 1025"):
        from_settings(SMALL, "FILE", block_size=1025)


@pytest.mark.parametrize(
    ("settings", "difference"),
    [
        ({"positions": "rotary"}, "positions learned instead of rotary"),
        ({"qk_norm": True}, "qk_norm False instead of True"),
        ({"activation": "relu_squared"}, "instead of relu_squared"),
        ({"norm": "post"}, "norm pre instead of post"),
        ({"norm_kind": "rms_norm"}, "norm_kind layer_norm instead of rms_norm"),
        ({"attention": "window"}, "attention dense instead of window"),
        ({"attention": "linear"}, "attention dense instead of linear"),
    ],
)
def test_what_gpt2_cannot_express_is_named(settings, difference):
    config = GPTConfig.gpt2(layers=1, heads=2, dim=8, **settings)
    assert len(differences(config)) == 1
    with pytest.raises(InputError) as error:
        to_settings(config)
    assert difference in str(error.value)


@pytest.mark.parametrize("attention", ["auto", "dense", "flash", "ring"])
def test_every_exact_kind_of_attention_is_gpt2s(attention):
    assert differences(GPTConfig.gpt2(attention=attention)) == []
    assert differences(GPTConfig.gpt2(norm=None)) == []
