"""Gradients of every block and of whole models agree with differences to second order."""

import inspect

import numpy as np
import pytest

from tinyattn import models, nn
from tinyattn.survey.blocks import blocks, check_block

BLOCKS = blocks()
SLOW = [name for name in BLOCKS if name.startswith(("GPT", "Encoder"))]


@pytest.mark.parametrize("name", [name for name in BLOCKS if name not in SLOW])
def test_a_block_agrees_with_differences_to_second_order(name):
    order = 1 if name.startswith("TransformerBlock") else 2
    with np.errstate(all="ignore"):
        row = check_block(name, order=order)
    assert row.passed, "\n".join(row.faults)


@pytest.mark.parametrize("name", SLOW)
def test_a_model_agrees_with_differences_along_random_directions(name):
    with np.errstate(all="ignore"):
        row = check_block(name, order=1, mode="directional")
    assert row.passed, "\n".join(row.faults + row.doubts)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW + [n for n in BLOCKS if n.startswith("TransformerBlock")])
def test_every_parameter_of_a_model_agrees_with_differences_to_second_order(name):
    with np.errstate(all="ignore"):
        row = check_block(name)
    assert row.passed, "\n".join(row.faults)


def test_every_layer_and_model_is_among_the_blocks():
    built = " ".join(BLOCKS)
    inside_others = {"Activation", "Identity", "Module", "ModuleList", "ALiBi"}
    for package, base in ((nn, nn.Module), (models, nn.Module)):
        for name in package.__all__:
            value = getattr(package, name)
            if inspect.isclass(value) and issubclass(value, base) and name not in inside_others:
                assert name in built, f"add {name} to tinyattn/survey/blocks.py"


def test_a_wrong_block_is_a_fault(monkeypatch):
    monkeypatch.setattr(nn.Linear, "forward", lambda self, x: x @ self.weight.detach())
    assert not check_block("Linear", order=1).passed
