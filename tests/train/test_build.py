"""Models, optimizers and learning rates are those of the configuration."""

import numpy as np
import pytest

from tinyattn.data import InputError
from tinyattn.models import GPT, GPTConfig
from tinyattn.train.build import build_optimizers
from tinyattn.train.config import make_config
from tinyattn.train.session import begin


def test_the_encoder_is_post_norm_by_default(tmp_path, tiny):
    def norm(name, **options):
        trainer = begin(make_config(tiny, **options), tmp_path / name)
        return trainer.model.blocks[0].norm

    assert norm("gpt") == "pre"
    assert norm("encoder", model="encoder") == "post"
    assert norm("given", model="encoder", norm="pre") == "pre"


def test_options_that_the_model_rejects_are_input_errors(tmp_path, tiny):
    with pytest.raises(InputError, match="no model can be built"):
        begin(make_config(tiny, attention="linear", positions="alibi"), tmp_path / "run")


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
