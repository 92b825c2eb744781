"""Options come from one place, are checked by name, and survive a file."""

import dataclasses
from typing import Annotated

import pytest

from tinyattn.data import InputError
from tinyattn.train.config import (
    GROUPS,
    PRESETS,
    config_to_json,
    flatten,
    make_config,
    options_from_json,
)
from tinyattn.train.ranges import check_ranges


@pytest.mark.parametrize("preset", PRESETS)
def test_a_config_file_gives_the_configuration_back(preset):
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
        ({"heads": 3}, "--dim 128 cannot be shared by --heads 3"),
        ({"heads": 128}, "rotary positions turn pairs"),
        ({"out": 3}, "--out must be text, given 3"),
    ],
)
def test_a_wrong_option_is_named_with_what_it_must_be(options, message):
    with pytest.raises(InputError) as caught:
        make_config(options)
    assert message in str(caught.value)


def test_none_is_allowed_only_where_the_field_says_so():
    assert make_config(workers=None).run.workers is None
    with pytest.raises(InputError, match="--steps must be a whole number, given None"):
        make_config(steps=None)


def test_notes_for_the_command_line_do_not_hide_the_type():
    @dataclasses.dataclass
    class Options:
        name: Annotated[str | None, "a note"] = None
        count: Annotated[int | None, "a note"] = None

    check_ranges(Options("a", 3))
    with pytest.raises(InputError, match="--count must be a whole number, given 'x'"):
        check_ranges(Options(count="x"))


def test_options_win_over_the_preset():
    config = make_config(preset="nanogpt-cpu", steps=7)
    assert (config.run.steps, config.architecture.positions) == (7, "learned")


@pytest.mark.parametrize("text", ["", "{", "[1]", "3"])
def test_a_file_that_is_not_json_of_options_is_refused(text):
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
