"""Temporary replacement of a function's code."""

import pytest

from tinyattn.mutation.rewrite import code_from, running, source_of


def test_the_code_is_restored_after_an_error():
    def double(x):
        return 2 * x

    with (
        pytest.raises(RuntimeError),
        running(double, code_from(double, "def f(x):\n    return 3 * x")),
    ):
        assert double(1) == 3
        raise RuntimeError
    assert double(1) == 2
    assert source_of(double).splitlines()[0].startswith("def double")
