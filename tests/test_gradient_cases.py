"""The cases of the benchmark of gradient checkers: fifty are right and fifty are wrong."""

import importlib

import numpy as np
import pytest

from tinyattn.checker import gradient_report

cases = importlib.import_module("benchmarks.peers.gradient_cases")


@pytest.mark.parametrize(
    "verdict, chosen", [("right", cases.right_cases), ("wrong", cases.wrong_cases)]
)
@pytest.mark.parametrize("mode", ["full", "fast"])
def test_right_and_wrong_gradients_have_their_verdict_at_every_scale(mode, verdict, chosen):
    given = chosen()
    assert len(given) == 50
    for case in given:
        report = gradient_report((case.forward, case.backward), case.arrays, mode=mode)
        assert report.verdict == verdict, (case.name, case.mistake)


def test_every_mistake_changes_the_gradient():
    right = {case.name: case for case in cases.right_cases()}
    for case in cases.wrong_cases():
        g = np.random.default_rng(1).standard_normal(np.shape(case.forward(*case.arrays)))
        wrong, own = case.backward(g, *case.arrays), right[case.name].backward(g, *case.arrays)
        assert not np.allclose(wrong[0], own[0], rtol=1e-6, atol=0), (case.name, case.mistake)
