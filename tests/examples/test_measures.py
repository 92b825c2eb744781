"""The measurement functions of the examples, on inputs with a known result."""

import math
import pathlib
import subprocess
import sys

import numpy as np
import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def examples_importable(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))


def test_an_exponent_is_that_of_the_longer_half():
    from cost_against_length import exponent

    lengths = [64, 128, 256, 512]
    assert exponent(lengths, [1, 1, 256**1.5, 512**1.5]) == pytest.approx(1.5)
    assert exponent(lengths[:2], [64**2, 128**2]) == pytest.approx(2)


def test_other_weights_give_the_same_average_from_few_keys(random):
    from weights_are_not_explanations import other_weights

    weights, values = random.dirichlet(np.ones(40)), random.standard_normal((40, 6))
    other = other_weights(weights, values)
    np.testing.assert_allclose(other @ values, weights @ values, atol=1e-9)
    assert other.sum() == pytest.approx(1) and (other >= 0).all()
    assert np.count_nonzero(other) <= 7
    assert np.abs(other - weights).sum() > 0.5


def test_ranks_correlate_for_any_rising_function(random):
    from weights_are_not_explanations import rank_correlation

    x = random.standard_normal(30)
    assert rank_correlation(x, np.exp(x)) == pytest.approx(1)
    assert rank_correlation(x, -x) == pytest.approx(-1)


def test_the_blatant_pair_has_more_weight_and_less_effect():
    from weights_are_not_explanations import most_blatant_pair

    weights, effects = np.array([0.6, 0.3, 0.1, 0.05]), np.array([2.0, 1.0, 8.0, 4.0])
    of_weights, of_effects, (i, j) = most_blatant_pair(weights, effects)
    assert (i, j) == (0, 2)
    assert of_weights == pytest.approx(6) and of_effects == pytest.approx(4)


@pytest.mark.parametrize("way", ["before", "after", "renormalized"])
def test_only_a_mask_after_the_softmax_breaks_the_sum_of_a_row(way, random):
    import tinyattn as ta
    from mask_before_softmax import weights_of

    weights = weights_of(ta.tensor(random.standard_normal((5, 5))), way).numpy()
    assert np.triu(weights, 1).max() == 0
    sums = weights.sum(axis=-1)
    assert (sums[:-1] < 0.99).all() if way == "after" else np.allclose(sums, 1)


def test_a_causal_mask_is_seen_as_order():
    from permutation import distance_from_equivariance, make_model

    assert distance_from_equivariance(make_model("none")) < 1e-12
    assert distance_from_equivariance(make_model("none", causal=True)) > 1e-3


def test_answers_of_the_asymmetric_task_are_the_payloads_looked_for(random):
    from separate_projections import KINDS, PAYLOADS, draw_batch

    tokens, wanted = draw_batch(random, 20)
    kinds, payloads = tokens // PAYLOADS, tokens % PAYLOADS
    for row in range(20):
        for place in range(KINDS):
            target = (kinds[row] == (kinds[row, place] + 1) % KINDS).argmax()
            assert wanted[row, place] == payloads[row, target]


def test_variance_of_dot_products_is_the_dimension():
    from scale_and_saturation import dot_products

    assert dot_products(16, pairs=20_000).var() == pytest.approx(16, rel=0.05)
    assert dot_products(16, pairs=20_000).mean() == pytest.approx(0, abs=5 * math.sqrt(16 / 20_000))


def test_a_claim_that_fails_ends_the_example_with_an_error(tmp_path):
    script = tmp_path / "wrong.py"
    script.write_text(
        f"import sys; sys.path[:0] = [{str(EXAMPLES)!r}, {str(EXAMPLES.parent)!r}]\n"
        "from harness import example\n"
        '@example(limit={"type": int, "default": 3, "help": "a number"})\n'
        "def main(run):\n"
        "    assert run.options.limit == run.choose(4, 5)\n"
        "main()\n"
    )
    runs = {
        arguments: subprocess.run(
            [sys.executable, str(script), *arguments], capture_output=True, text=True
        )
        for arguments in [(), ("--limit", "4"), ("--limit", "5", "--quick")]
    }
    wrong, *right = runs.values()
    assert wrong.returncode != 0 and "the claim holds" not in wrong.stdout
    for done in right:
        assert done.returncode == 0 and "the claim holds" in done.stdout, done.stderr
