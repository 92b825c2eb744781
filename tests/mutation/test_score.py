"""Scores of a check under mutants."""

import math

import pytest

from tinyattn.mutation.mutants import mutants
from tinyattn.mutation.score import caught_by, score


def derivative(x):
    return 2 * math.cos(x)


def test_each_mutant_runs_while_it_is_judged_and_none_afterwards():
    outcomes = list(
        score(derivative, mutants(derivative), lambda: derivative(0.3) != 2 * math.cos(0.3))
    )
    assert len(outcomes) >= 4 and all(caught for _, caught in outcomes)
    assert derivative(0.0) == 2


def test_a_check_that_misses_everything_scores_nothing():
    assert not any(caught for _, caught in score(derivative, mutants(derivative), lambda: False))


@pytest.mark.parametrize("error", [ZeroDivisionError, TypeError])
def test_a_check_that_raises_has_caught_the_mutant(error):
    def check():
        raise error

    assert caught_by(check)


def test_a_check_that_does_not_end_has_caught_the_mutant():
    def check():
        while True:
            pass

    assert caught_by(check, limit=0.2)
    assert not caught_by(lambda: False, limit=0.2)
