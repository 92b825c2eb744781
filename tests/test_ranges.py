"""Validation of dataclass fields against their annotations."""

import dataclasses
from typing import Annotated, Literal

import numpy as np
import pytest

from tinyattn.ranges import Count, Probability, check_ranges


@dataclasses.dataclass
class Settings:
    name: Annotated[str | None, "a note of the command line"] = None
    count: Annotated[int | None, "a note of the command line"] = None
    layers: Count = 4
    dropout: Probability = 0.0
    options: dict | None = None
    norm: Literal["pre", "post"] | None = None
    bias: bool = False


@pytest.mark.parametrize(
    "values",
    [
        {"name": "a", "count": 3},
        {"layers": np.int64(2), "dropout": np.float32(0.5)},
        {"dropout": 0},
        {"norm": "post"},
    ],
)
def test_values_within_their_range_pass(values):
    check_ranges(Settings(**values))


@pytest.mark.parametrize(
    "values, message",
    [
        ({"count": "x"}, "count must be a whole number, given 'x'"),
        ({"layers": 0}, "layers must be at least 1, given 0"),
        ({"layers": 2.0}, "layers must be a whole number, given 2.0"),
        ({"layers": True}, "layers must be a whole number, given True"),
        ({"dropout": np.float64(1)}, "dropout must be at least 0 and below 1, given"),
        ({"dropout": float("nan")}, "dropout must be a finite number"),
        ({"options": 3}, "options must be names and values, given 3"),
        ({"norm": "both"}, "norm must be one of pre, post, given 'both'"),
        ({"bias": 1}, "bias must be true or false, given 1"),
    ],
)
def test_other_values_are_refused_with_field_range_and_value(values, message):
    with pytest.raises(ValueError, match=message):
        check_ranges(Settings(**values))


def test_field_names_are_formatted_by_spell():
    with pytest.raises(ValueError, match=r"^LAYERS must be"):
        check_ranges(Settings(layers=0), str.upper)
