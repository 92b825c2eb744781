"""Options are defined once, validated by name, and round-trip through JSON."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.backend import Random
from tinyattn.data import InputError
from tinyattn.train.build import MODELS, build_model
from tinyattn.train.config import (
    FORMER_NAMES,
    GROUPS,
    config_to_json,
    flatten,
    make_config,
    options_from_json,
)
from tinyattn.train.loading import make_model
from tinyattn.train.presets import PRESETS


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != "finetune"])
def test_a_configuration_round_trips_through_json(preset):
    config = make_config(preset=preset, seed=5)
    assert make_config(options_from_json(config_to_json(config))) == config


def test_names_are_unique_across_the_groups():
    names = [one.name for owner in GROUPS.values() for one in dataclasses.fields(owner)]
    assert len(names) == len(set(names)) == len(flatten(make_config()))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"steps": 0}, "--steps must be at least 1, given 0"),
        ({"steps": "5"}, "--steps must be a whole number, given '5'"),
        ({"steps": True}, "--steps must be a whole number, given True"),
        ({"dropout": 1.0}, "--dropout must be at least 0 and below 1, given 1.0"),
        ({"dropout": -0.1}, "--dropout must be"),
        (
            {"learning_rate": float("nan")},
            "--learning-rate must be a finite number, above 0, given nan",
        ),
        (
            {"learning_rate": float("inf")},
            "--learning-rate must be a finite number, above 0, given inf",
        ),
        ({"bias": 1}, "--bias must be true or false, given 1"),
        ({"model": "lstm"}, "--model must be one of gpt, encoder, rnn, cnn, given 'lstm'"),
        ({"preset": "slow"}, "unknown preset 'slow': expected one of fast"),
        ({"layer": 3}, "unknown option 'layer'"),
        ({"heads": 3}, "--dim 128 is not a multiple of --heads 3"),
        (
            {"heads": 128},
            "rotary positions need an even head_dim, got 1: choose --dim and --heads",
        ),
        ({"out": 3}, "--out must be text, given 3"),
    ],
)
def test_an_invalid_option_is_named_with_its_valid_values(options, message):
    with pytest.raises(InputError) as caught:
        make_config(options)
    assert message in str(caught.value)


def test_none_is_valid_only_if_the_annotation_allows_it():
    assert make_config(workers=None).run.workers is None
    with pytest.raises(InputError, match="--steps must be a whole number, given None"):
        make_config(steps=None)


def test_numpy_numbers_are_converted_to_python_numbers():
    config = make_config(steps=np.int64(5), dropout=np.float64(0.5))
    assert (
        make_config(options_from_json(config_to_json(config)))
        == config
        == make_config(steps=5, dropout=0.5)
    )


def test_options_override_the_preset():
    config = make_config(preset="nanogpt-cpu", steps=7)
    assert (config.run.steps, config.architecture.positions) == (7, "learned")


@pytest.mark.parametrize("text", ["", "{", "[1]", "3"])
def test_a_file_without_json_options_is_an_error(text):
    with pytest.raises(InputError, match=r"my\.json"):
        options_from_json(text, "my.json")


def test_the_nanogpt_presets_are_its_published_recipes():
    cpu, gpu = make_config(preset="nanogpt-cpu"), make_config(preset="nanogpt-gpu")
    for config in (cpu, gpu):
        optimization = config.optimization
        assert optimization.optimizer == "adamw"
        assert optimization.learning_rate == 1e-3
        assert optimization.learning_rate * optimization.final_share == pytest.approx(1e-4)
        assert (optimization.beta1, optimization.beta2) == (0.9, 0.99)
        assert (optimization.weight_decay, optimization.clip) == (0.1, 1.0)
        assert (optimization.decay, optimization.warmup_steps) == ("cosine", 100)
        assert not config.architecture.bias and config.architecture.activation == "gelu"
    shape = [
        (c.architecture.layers, c.architecture.heads, c.architecture.dim)
        + (c.architecture.block_size, c.run.batch_size, c.run.steps, c.architecture.dropout)
        for c in (cpu, gpu)
    ]
    assert shape == [(4, 4, 128, 64, 12, 2000, 0.0), (6, 6, 384, 256, 64, 5000, 0.2)]


# For some runs as they were written before models and trainer had the same settings: config.json, the parameters of
# the model, and the first logits at the end of a text, with weights of seed 0 times 5.
EARLIER_RUNS = json.loads(Path(__file__).with_name("earlier_runs.json").read_text())


@pytest.mark.parametrize("name", EARLIER_RUNS)
def test_a_run_of_an_earlier_version_loads_the_same_model(name):
    earlier = EARLIER_RUNS[name]
    config = make_config(options_from_json(json.dumps(earlier["config"])))
    stored = {
        FORMER_NAMES.get(name, name): value
        for group in earlier["config"].values()
        for name, value in group.items()
    }
    assert flatten(config) | stored == flatten(config)
    model = make_model(config, 28, Random(0)).eval()
    shapes = {name: "x".join(map(str, p.shape)) for name, p in model.named_parameters()}
    assert shapes == earlier["shapes"]
    for parameter in model.parameters():
        parameter.data = parameter.numpy() * 5
    with ta.no_grad():
        logits = model(np.array([[1, 2, 3, 4, 5, 6]])).numpy()[0, -1, :4]
    np.testing.assert_allclose(logits, earlier["logits"], rtol=1e-9)


def test_a_configuration_of_an_earlier_run_describes_a_model_without_previous_embedding():
    text = '{"architecture": {"layers": 2}, "run": {"preset": "fast"}}'
    assert not make_config(options_from_json(text)).architecture.previous_embedding
    assert make_config(options_from_json('{"layers": 2}')).architecture.previous_embedding


@pytest.mark.parametrize("name", ["gpt", "encoder", "rnn", "cnn"])
def test_the_trainers_defaults_are_the_models_own(name):
    model = build_model(make_config(model=name), 65)
    assert model.config == MODELS[name][1](vocabulary_size=65)


@pytest.mark.parametrize("name", ["gpt", "encoder", "rnn", "cnn"])
def test_every_setting_of_a_model_is_an_option_documented_once(name):
    options = {one.name: one for one in dataclasses.fields(GROUPS["architecture"])}
    config = MODELS[name][1]
    for one in dataclasses.fields(config):
        if one.name != "vocabulary_size":  # the text has it
            assert options[one.name].default == one.default
        assert one.name not in vars(config).get("__annotations__", {}), "inherited"
