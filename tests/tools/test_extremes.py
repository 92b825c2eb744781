"""Outputs and gradients at kinks and for extreme numbers equal independently computed values."""

import numpy as np
import pytest

import tinyattn as ta
from tools.mutants.extreme_check import check_extreme
from tools.mutants.extremes import EXTREMES

CALLS = [
    pytest.param(extreme, dtype, id=f"{extreme}, {dtype}")
    for extreme in EXTREMES
    for dtype in extreme.dtypes
]


@pytest.mark.parametrize("extreme, dtype", CALLS)
def test_the_rule(extreme, dtype, device):
    with ta.reference(), np.errstate(all="ignore"):
        check_extreme(extreme, device, dtype)


@pytest.mark.parametrize("extreme, dtype", CALLS)
def test_with_kernels(extreme, dtype, device):
    with np.errstate(all="ignore"):
        check_extreme(extreme, device, dtype)
