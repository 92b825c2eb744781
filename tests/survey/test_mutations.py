"""Known mutations of rules: which checks catch them, and that the rules are unchanged afterwards."""

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.survey.mutations import MUTATIONS, break_rule, mutated

# Measured on published teaching engines: which checks miss which mutation.
MISSED = {
    ("softmax", "returns zeros"): {"ones"},
    ("softmax", "is 7 times too large"): {"ones"},
    ("softmax", "lacks the outer y"): {"ones"},
    ("layer_norm", "returns zeros"): {"ones"},
    ("layer_norm", "lacks the variance term"): {"ones"},
    ("layer_norm", "has the wrong sign"): {"ones"},
    ("layer_norm", "lacks the mean term"): {"sum(y**2)"},
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_random_cotangent_catches_every_mutation_and_the_others_miss_those_of_the_table(name):
    before = gradient(name)
    outcomes = list(break_rule(name))
    assert len(outcomes) >= 5
    for outcome in outcomes:
        assert outcome.caught["random"], outcome.mutation.what
        expected = MISSED.get((name, outcome.mutation.what))
        if expected is not None:
            assert {check for check, caught in outcome.caught.items() if not caught} == expected
    assert np.array_equal(gradient(name), before)


def gradient(name):
    x = ta.tensor(np.arange(16.0).reshape(4, 4) % 5, requires_grad=True)
    calls = {
        "softmax": lambda: ta.softmax(x),
        "layer_norm": lambda: ta.layer_norm(x, 4),
        "cross_entropy": lambda: ta.cross_entropy(x, np.array([0, 1, 2, 3])),
        "attention": lambda: ta.scaled_dot_product_attention(x, x, x),
        "matmul": lambda: x @ x,
        "add": lambda: x + x[0],
        "sum": lambda: x.sum(axis=1),
        "mean": lambda: x.mean(axis=1),
        "sigmoid": lambda: ta.sigmoid(x),
        "log_softmax": lambda: ta.log_softmax(x),
        "embedding": lambda: ta.embedding([1, 1, 3], x),
        "gelu": lambda: ta.gelu(x),
    }
    with ta.reference():
        y = calls[name]()
        return ta.grad(y, x, ta.tensor(np.cos(np.arange(y.size)).reshape(y.shape)))[0].numpy()


def test_every_mutation_changes_text_that_occurs_once():
    for name, mutations in MUTATIONS.items():
        for mutation in mutations:
            with mutated(name, mutation):
                pass


def test_an_unknown_operation_is_refused():
    with pytest.raises(ValueError, match="expected one of add"):
        next(break_rule("sofmax"))
