"""Shares of heads whose behavior is known by construction."""

import numpy as np
import pytest

from tinyattn.study.heads import BEHAVIORS, even_shares, kind_of, measure_heads, target_cells

TEXT = "the cat sat on the mat and the cat ran"
CAUSAL = np.tril(np.ones((len(TEXT),) * 2, bool))


def weights_on(cells):
    """Uniform weights over ``cells``, or over all visible keys in rows without cells."""
    cells = cells & CAUSAL
    cells = np.where(cells.any(axis=1, keepdims=True), cells, CAUSAL)
    return (cells / cells.sum(axis=1, keepdims=True))[None, None]


@pytest.mark.parametrize(
    "behavior", [b for b in BEHAVIORS if b.key != "uniform"], ids=lambda b: b.key
)
def test_a_head_with_one_behavior_has_share_1_and_is_classified_as_it(behavior):
    weights = weights_on(target_cells(TEXT)[behavior.key])
    shares = {key: value[0, 0] for key, value in measure_heads(weights, TEXT, CAUSAL).items()}
    assert shares[behavior.key] == pytest.approx(1)
    assert kind_of(shares, even_shares(TEXT, CAUSAL)) == behavior.name


def test_uniform_attention_is_classified_as_uniform():
    shares = even_shares(TEXT, CAUSAL)
    assert shares["uniform"] == pytest.approx(1)
    assert kind_of(shares, shares) == "uniform"
    measured = measure_heads(weights_on(CAUSAL), TEXT, CAUSAL)
    for key, share in measured.items():
        assert share[0, 0] == pytest.approx(shares[key])


def test_cells_of_induction_follow_an_earlier_copy_of_the_query():
    cells = target_cells("xaybxa")["induction"]
    assert cells[4].tolist() == [False, True, False, False, False, False], "x was followed by a"
    assert cells[5].tolist() == [False, False, True, False, False, False], "a was followed by y"
    assert not cells[:4].any()


def test_a_behavior_that_the_text_cannot_show_is_nan():
    shares = measure_heads(np.eye(3)[None, None], "abc")
    for key in ("same", "induction", "long_range"):
        assert np.isnan(shares[key][0, 0])
    values = {key: share[0, 0] for key, share in shares.items()}
    assert kind_of(values, values) == "mixed"


def test_rows_without_weights_are_ignored():
    weights = np.zeros((1, 1, 4, 4))
    weights[0, 0, 1, 0] = 1
    shares = measure_heads(weights, "abab")
    assert shares["first"][0, 0] == 1 and shares["neighbor"][0, 0] == 1


def test_weights_that_do_not_fit_the_text_are_refused():
    with pytest.raises(ValueError, match="4 tokens"):
        measure_heads(np.zeros((1, 1, 3, 3)), "abcd")
