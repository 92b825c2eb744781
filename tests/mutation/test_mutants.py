"""Mutants of a user's rule: the gradient checker kills each, and the rule is unchanged afterwards."""

import inspect

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.autograd import PRIMITIVES
from tinyattn.checker import gradient_report
from tinyattn.mutation.mutants import mutants
from tinyattn.mutation.rewrite import running


@pytest.fixture
def scaled_swish_vjp():
    """The backward of a primitive x sigmoid(b x), written as a user would."""

    @ta.primitive
    def scaled_swish(x, /, b=1.0):
        xp = ta.array_namespace(x)
        return x / (1 + xp.exp(-b * x))

    @scaled_swish.vjp
    def scaled_swish_vjp(g, _out, x, *, b=1.0):
        xp = ta.array_namespace(g)
        s = 1 / (1 + xp.exp(-b * x))
        return g * (s + b * x * s * (1 - s))

    yield scaled_swish_vjp
    del PRIMITIVES["scaled_swish"]


def test_the_checker_kills_every_mutant_of_a_users_rule(scaled_swish_vjp):
    swish = PRIMITIVES["scaled_swish"]
    x = ta.tensor(np.array([[0.3, -1.2], [2.0, -0.4]]))
    found = list(mutants(scaled_swish_vjp))
    assert len(found) > 15

    def report():
        return gradient_report(lambda x: swish(x, b=1.7), x)

    for change, code in found:
        with running(scaled_swish_vjp, code):
            assert not report().passed, change
    assert report().passed


def test_a_change_names_its_line_in_the_file(scaled_swish_vjp):
    lines, first = inspect.getsourcelines(scaled_swish_vjp)
    for change, _ in mutants(scaled_swish_vjp):
        assert change.before in lines[change.line - first]
