"""A fixed sample of the mutants is killed in every run; ``python -m tools.mutants`` runs all of them."""

import pytest

from tools.mutants.run import check_the_checks, find_mutants

SAMPLE_EVERY = 61


@pytest.fixture(scope="module")
def mutants():
    return find_mutants()


def test_there_are_enough_of_every_kind(mutants):
    assert len(mutants) >= 1000
    kinds = {mutant.change.kind for mutant in mutants}
    assert kinds >= {
        "swap an operator",
        "drop a term",
        "drop a factor",
        "drop a sign",
        "change an axis",
        "drop a transpose",
        "alter a constant",
        "skip an accumulation",
        "skip a statement",
    }


def test_a_fixed_sample_is_killed(mutants):
    sample = mutants[::SAMPLE_EVERY]
    check_the_checks(sample)
    survivors = [
        mutant.key for mutant in sample if mutant.is_killed() is None and mutant.reason is None
    ]
    assert not survivors, "\n".join(survivors)
