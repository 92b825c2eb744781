"""Mutation operators: each change is one change to the text of a function."""

import ast

from tinyattn.mutation.operators import changes


def test_a_change_is_one_change():
    tree = ast.parse("def f(g, x):\n    return g * x - x.T")
    found = {change.after for change in changes(tree)}
    assert found == {
        "return -(g * x - x.T)",
        "return g * x + x.T",
        "return g * x",
        "return x.T",
        "return g / x - x.T",
        "return g - x.T",
        "return x - x.T",
        "return g * x - x",
    }
    assert ast.unparse(tree) == "def f(g, x):\n    return g * x - x.T"
