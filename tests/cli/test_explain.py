"""``tinyattn explain``."""

import pytest


def test_explain_prints_the_walkthrough(call):
    answer = call("explain", "softmax", "--x", "0 0", "--cotangent", "1 0")
    assert answer.status == 0
    assert "[0.5000  0.5000]" in answer.output and "[ 0.2500  -0.2500]" in answer.output


def test_numbers_may_begin_with_a_minus_sign(call):
    answer = call("explain", "softmax", "--x", "-1 -1", "--cotangent", "-1 0")
    assert answer.status == 0, answer.error
    assert "[-0.2500   0.2500]" in answer.output


@pytest.mark.parametrize(
    "words, message",
    [
        (["relu"], "softmax"),
        (["softmax", "--x", "1 a"], "'a' is not a finite number"),
        (["softmax", "--target", "1"], "softmax takes no"),
        ([], "requires an argument"),
    ],
)
def test_explain_refuses_in_one_sentence(refuse, words, message):
    assert message in refuse("explain", *words)
