"""``explain``: the walkthroughs agree with the engine, and their checks detect errors."""

import io
import re

import numpy as np
import pytest
from rich.console import Console

import tinyattn as ta
from tinyattn.study import walkthroughs
from tinyattn.study.explanation import Explanation, explain
from tinyattn.study.numbers import format_array

OPERATIONS = sorted(walkthroughs.WALKTHROUGHS)


def value_of(explanation, name, part="backward"):
    return next(line.value for line in explanation.lines if (line.part, line.name) == (part, name))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_walkthrough_agrees_with_the_rule_and_with_finite_differences(operation):
    explanation = ta.study.explain(operation)
    assert explanation.passed
    checks = [line for line in explanation.lines if line.part == "check" and line.note]
    assert len(checks) >= 3 and all(line.value < 1e-8 for line in checks if line.note == "agrees")


@pytest.mark.parametrize("operation", ["softmax", "layer_norm", "gelu"])
def test_user_supplied_numbers_are_explained(operation, random):
    x, g = random.normal(size=5), random.normal(size=5)
    explanation = ta.study.explain(
        operation, x=" ".join(map(str, x)), cotangent=", ".join(map(str, g))
    )
    tensor = ta.tensor(x, requires_grad=True)
    function = {"softmax": ta.softmax, "gelu": ta.gelu, "layer_norm": lambda t: ta.layer_norm(t, 5)}
    (expected,) = ta.grad(function[operation](tensor), tensor, grad_outputs=ta.tensor(g))
    assert explanation.passed
    np.testing.assert_allclose(value_of(explanation, "dx"), expected.numpy(), rtol=1e-10)


def test_matmul_and_cross_entropy_take_a_second_argument(random):
    a, b, g = random.normal(size=(2, 3)), random.normal(size=(3, 4)), random.normal(size=(2, 4))
    explanation = ta.study.explain("matmul", x=a, y=b, cotangent=g)
    assert explanation.passed
    np.testing.assert_allclose(value_of(explanation, "db"), a.T @ g, rtol=1e-12)
    explanation = ta.study.explain("cross_entropy", x="1 2 3", target="2", cotangent="2")
    assert explanation.passed
    np.testing.assert_allclose(
        value_of(explanation, "dz")[2], 2 * (value_of(explanation, "p")[2] - 1), rtol=1e-12
    )


def test_attention_gives_the_article_s_numbers():
    text = str(ta.study.explain("attention"))
    assert "0.248 0.248 0.504" in text and "0.752 0.752" in text
    assert "[0.2483  0.2483  0.5035]" in text and "[0.7517  0.7517]" in text
    assert "[0.7071  0.7071  1.4142]" in text


def test_attention_is_explained_for_any_tokens_and_cotangent(random):
    X, g = random.normal(size=(4, 3)), random.normal(size=(4, 3))
    explanation = ta.study.explain("attention", x=X, cotangent=g)
    tensor = ta.tensor(X, requires_grad=True)
    output = ta.scaled_dot_product_attention(tensor[None], tensor[None], tensor[None])[0]
    (expected,) = ta.grad(output, tensor, grad_outputs=ta.tensor(g))
    assert explanation.passed
    np.testing.assert_allclose(value_of(explanation, "dX"), expected.numpy(), rtol=1e-9)


def test_a_wrong_walkthrough_is_reported(monkeypatch):
    def wrong(steps, x=None, cotangent=None):
        x, g = np.array([1.0, 2.0]), np.array([1.0, 0.5])
        steps.title("gelu", "wrong on purpose")
        y = ta.gelu(ta.tensor(x)).numpy()
        dx = steps.backward("dx", "", g * 0.9)
        steps.check(lambda ta, x: ta.gelu(x), [("x", x, dx)], g, y)

    monkeypatch.setitem(walkthroughs.WALKTHROUGHS, "gelu", wrong)
    explanation = explain("gelu")
    assert not explanation.passed
    assert str(explanation).count("DIFFERS") == 2, "from the rule and from the differences"


def on_a_terminal(explanation, columns):
    """The output on a terminal of that width, without colors."""
    stream = io.StringIO()
    console = Console(file=stream, width=columns, force_terminal=True, markup=False)
    console.print(explanation)
    assert "\x1b[" in stream.getvalue()
    return re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())


@pytest.mark.parametrize("columns", [200, 80, 40, 24])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_digit_is_shown_at_every_width(operation, columns):
    explanation = explain(operation)
    assert "\x1b" not in str(explanation)
    shown = on_a_terminal(explanation, columns)
    for line in explanation.lines:
        values = [] if line.value is None else format_array(line.value)
        for text in [line.name, line.note, *values]:
            assert "".join(text.split()) in "".join(shown.split()), (text, shown)


def test_a_notebook_gets_a_table_with_escaped_text():
    explanation = Explanation()
    explanation.title("softmax", "<b>&")
    explanation.forward("<script>", "a < b", 1.0)
    shown = explanation._repr_html_()
    assert "<script>" not in shown and "&lt;script&gt;" in shown and "a &lt; b" in shown


@pytest.mark.parametrize(
    ("operation", "arguments", "words"),
    [
        ("relu", {}, "softmax, layer_norm, matmul"),
        ("softmax", {"x": "1 two 3"}, "'two'"),
        ("softmax", {"x": "1 2; 3 4"}, "a row of numbers"),
        ("softmax", {"x": "1 nan"}, "'nan'"),
        ("softmax", {"x": "1 2 3", "cotangent": "1 2"}, r"expected \(3,\)"),
        ("softmax", {"y": "1"}, "takes no y"),
        ("matmul", {"x": "1 2; 3"}, "rows of 2, 1 numbers"),
        ("matmul", {"x": "1 2", "y": "1 2 3"}, "as many columns of x as rows of y"),
        ("cross_entropy", {"target": 9}, "from 0 to 3"),
        ("cross_entropy", {"target": "one"}, "'one': expected one class"),
        ("attention", {"x": ""}, "rows of"),
    ],
)
def test_errors_are_one_sentence(operation, arguments, words):
    with pytest.raises(ValueError, match=words) as caught:
        explain(operation, **arguments)
    assert "\n" not in str(caught.value)


def test_large_jacobians_are_multiplied_but_not_printed():
    explanation = ta.study.explain("softmax", x=" ".join(map(str, range(12))))
    assert explanation.passed and "12 by 12" in str(explanation)


@pytest.mark.parametrize("x", ["1 1 1", "1e6 1e6 1000001", "1e-8 2e-8"])
def test_the_error_of_finite_differences_is_taken_into_account(x):
    explanation = explain("layer_norm", x=x)
    assert explanation.passed, str(explanation)


def test_explain_works_inside_no_grad():
    with ta.no_grad():
        assert ta.study.explain("softmax").passed
