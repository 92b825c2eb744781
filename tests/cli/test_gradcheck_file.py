"""``tinyattn gradcheck`` of functions in a file."""

import json

import pytest

RULE = """
import numpy as np

print("this is not JSON")


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_backward(g, x):
    y = softmax(x)
    return y * (g - np.sum(g * y, axis=-1, keepdims=True))


def wrong(g, x):
    dx = softmax_backward(g, x)
    dx[0, 1] *= 1.001
    return dx


def misshapen(g, x):
    return softmax_backward(g, x)[:1]


def raising(g, x):
    return g @ np.ones((7, 7))


def rounded(x):
    return np.sin(x) + 1e10


def rounded_backward(g, x):
    return g * np.cos(x)


def negative(x):
    return -x


def negative_backward(g, x):
    return -g


def of_two(g, x, w):
    return g, g


lambda_backward = lambda g, x: g
number = 3


class Rule:
    @staticmethod
    def forward(x):
        return np.sin(x)

    @staticmethod
    def backward(g, x):
        return g * np.cos(x)
"""


@pytest.fixture
def rule(tmp_path):
    (tmp_path / "rule.py").write_text(RULE)
    return tmp_path


def test_a_right_pair_gives_status_0_and_a_line_for_each_argument(rule, call):
    answer = call("gradcheck", "rule.py:softmax,softmax_backward", "--inputs", "3x4", "--seed", "5")
    assert answer.status == 0
    lines = answer.output.splitlines()
    assert lines[1].split()[:3] == ["inputs[0]", "3x4", "12"]
    assert lines[-1].startswith("right: rule.py:softmax,softmax_backward, 12 elements")


def test_a_wrong_pair_gives_status_1_and_the_command_that_shows_it_again(rule, call):
    answer = call("gradcheck", "rule.py:softmax,wrong", "--inputs", "3x4", "--seed", "7")
    assert answer.status == 1
    assert "worst at    [0, 1]" in answer.output and "factor 1.001" in answer.output
    assert (
        "reproduce   tinyattn gradcheck rule.py:softmax,wrong --inputs 3x4 --seed 7"
        in answer.output
    )


def test_the_verdict_cannot_tell_gives_status_3(rule, call):
    answer = call("gradcheck", "rule.py:rounded,rounded_backward", "--inputs", "2")
    assert answer.status == 3 and "cannot tell" in answer.output


def test_the_error_of_a_low_precision_gradient_is_in_units_in_the_last_place(rule, call):
    answer = call("gradcheck", "rule.py:softmax,softmax_backward", "--inputs", "3x4:float32")
    assert answer.status == 0
    assert "note: inputs[0]: float32 gradient: " in answer.output and " ulp" in answer.output


def test_static_methods_are_named_with_their_class(rule, call):
    assert call("gradcheck", "rule.py:Rule.forward,Rule.backward", "--inputs", "5").status == 0


def test_a_gradient_of_the_wrong_shape_is_wrong(rule, call):
    answer = call("gradcheck", "rule.py:softmax,misshapen", "--inputs", "3x4")
    assert answer.status == 1
    assert "has the shape (1, 4), expected (3, 4)" in answer.output


def test_json_is_the_report_and_nothing_else(rule, call):
    answer = call("gradcheck", "rule.py:softmax,wrong", "--inputs", "3x4", "--json")
    document = json.loads(answer.output)
    assert answer.status == 1
    assert (document["version"], document["verdict"]) == (1, "wrong")
    assert document["arguments"][0]["worst"][0]["index"] == [0, 1]
    assert "this is not JSON" in answer.error


def test_json_of_a_function_that_cannot_be_checked_has_the_error(rule, call):
    answer = call("gradcheck", "rule.py:softmax,misshapen", "--inputs", "3x4", "--json")
    document = json.loads(answer.output)
    assert (answer.status, document["verdict"]) == (1, "wrong")
    assert "expected (3, 4)" in document["error"]


def test_a_page_is_written(rule, call):
    words = ["rule.py:softmax,wrong", "--inputs", "3x4", "--html", "page.html"]
    assert call("gradcheck", *words).status == 1
    page = (rule / "page.html").read_text(encoding="utf-8")
    assert "tinyattn gradcheck rule.py:softmax,wrong --inputs 3x4 --seed 0" in page


@pytest.mark.parametrize(
    "words, message",
    [
        (["no.py:f", "--inputs", "3"], "there is no file 'no.py'"),
        (
            ["rule.py", "--inputs", "3"],
            "does not name a function: expected FILE.py:FORWARD,BACKWARD",
        ),
        (["rule.py:a,b,c", "--inputs", "3"], "given 3 functions"),
        (["rule.py:softmx,wrong", "--inputs", "3"], "did you mean softmax?"),
        (
            ["rule.py:number,wrong", "--inputs", "3"],
            "rule.py:number is of type int, not a function",
        ),
        (["rule.py:softmax", "--inputs", "3"], "has no backward pass: give FILE.py:FORWARD,"),
        (["rule.py:softmax,wrong"], "the shapes of softmax's arguments x, such as"),
        (["rule.py:softmax,wrong", "--inputs", "3x"], "'3x' is not a shape"),
        (["rule.py:softmax,wrong", "--inputs", "3:int8"], "the dtype is 'int8'"),
        (["rule.py:softmax,wrong", "--inputs", "99999999x99"], "more than 100,000,000 elements"),
        (["rule.py:softmax,wrong", "--inputs", "3,4"], "softmax takes x: --inputs gives 2 arrays"),
        (
            ["rule.py:softmax,of_two", "--inputs", "3"],
            "of_two takes g, x, w: expected the cotangent and 1 array",
        ),
        (["rule.py:softmax,raising", "--inputs", "3x4"], "rule.py:28: ValueError: matmul"),
        (["rule.py:softmax,wrong", "--inputs", "3", "--tests", "true"], "give --mutants as well"),
        (
            ["rule.py:softmax,wrong", "--inputs", "3", "--op", "softmax"],
            "--op cannot be combined with a function",
        ),
        (["--op", "softmax", "--json"], "--json is for functions of a file"),
        (
            ["rule.py:softmax,lambda_backward", "--inputs", "3x4", "--mutants", "--html", "p"],
            "leave --html out",
        ),
    ],
)
def test_a_mistake_of_the_users_gives_status_2_and_one_sentence(rule, refuse_file, words, message):
    assert message in refuse_file("gradcheck", *words)


@pytest.fixture
def refuse_file(call):
    """As ``refuse``, but what the file prints is left out."""

    def run(*words):
        answer = call(*words)
        assert answer.status == 2, answer
        (line,) = answer.error.replace("this is not JSON\n", "").splitlines()
        assert line.startswith("tinyattn: ")
        return line

    return run


@pytest.mark.parametrize(
    "source, message",
    [
        ("def f(x):\n    return (\n", "broken.py:2: "),
        ("import nothing_of_this_name\n", "broken.py:1: ModuleNotFoundError"),
        ("raise SystemExit(3)\n", "broken.py:1: SystemExit: 3"),
        ("\n\n1 / 0\n", "broken.py:3: ZeroDivisionError: division by zero"),
        ("def f(x):\n    return g(x)\n\n\nb = lambda g, x: g\n", "broken.py:2: NameError"),
    ],
)
def test_an_error_in_the_file_is_reported_with_its_line(tmp_path, refuse, source, message):
    (tmp_path / "broken.py").write_text(source)
    assert message in refuse("gradcheck", "broken.py:f,b", "--inputs", "3")


def test_files_of_the_same_directory_can_be_imported(rule, call):
    (rule / "more.py").write_text("from rule import softmax, softmax_backward as back\n")
    assert call("gradcheck", "more.py:softmax,back", "--inputs", "2x3").status == 0


def test_mutants_are_caught_by_the_check(rule, call):
    words = ["rule.py:softmax,softmax_backward", "--inputs", "3x4", "--mutants"]
    answer = call("gradcheck", *words)
    assert answer.status == 0
    assert answer.output == "gradcheck catches 14 of 14 mistakes in softmax_backward (rule.py)\n"


WEAK_TEST = """
import numpy as np
from rule import rounded_backward

x = np.linspace(-1, 1, 5)
np.testing.assert_allclose(np.abs(rounded_backward(np.ones(5), x)), np.cos(x))
"""


def test_mutants_that_a_command_misses_are_shown_with_their_line(rule, call):
    (rule / "weak.py").write_text(WEAK_TEST)
    line = RULE.splitlines().index("def rounded_backward(g, x):") + 2
    words = ["rule.py:Rule.forward,rounded_backward", "--inputs", "3", "--mutants", "--json"]
    answer = call("gradcheck", *words, "--tests", "python weak.py")
    document = json.loads(answer.output)
    missed = {m["kind"] for m in document["mutants"] if not m["caught"]}
    assert missed == {"drop a factor", "change the sign of the result"}
    assert {mutant["line"] for mutant in document["mutants"]} == {line}
    assert (answer.status, document["judge"]) == (1, "python weak.py")
    assert (rule / "rule.py").read_text() == RULE


def test_missed_mutants_are_printed_before_the_score(rule, call):
    (rule / "weak.py").write_text("import rule\n\nrule.negative_backward(1.0, 1.0)\n")
    words = ["rule.py:negative,negative_backward", "--inputs", "3", "--mutants"]
    answer = call("gradcheck", *words, "--tests", "python weak.py")
    line = RULE.splitlines().index("def negative_backward(g, x):") + 2
    assert answer.output.splitlines() == [
        f"missed  rule.py:{line}  drop a sign",
        "        return -g  ->  return g",
        "python weak.py catches 0 of 1 mistakes in negative_backward (rule.py)",
    ]


def test_a_command_that_fails_or_never_calls_the_function_is_refused(rule, refuse_file):
    words = ["gradcheck", "rule.py:softmax,softmax_backward", "--inputs", "3x4", "--mutants"]
    assert "ends with status 1 on the file as it is" in refuse_file(*words, "--tests", "false")
    assert "it does not call softmax_backward" in refuse_file(*words, "--tests", "true")


def test_a_wrong_backward_pass_has_no_mutation_score(rule, call):
    answer = call("gradcheck", "rule.py:softmax,wrong", "--inputs", "3x4", "--mutants")
    assert answer.status == 1 and "worst at    [0, 1]" in answer.output


def test_functions_of_pytorch_and_tinyattn_are_recognized_from_the_file(tmp_path, call):
    (tmp_path / "ours.py").write_text(
        "import tinyattn as ta\n\n\ndef f(x, w):\n    return ta.softmax(x @ w)\n"
    )
    assert call("gradcheck", "ours.py:f", "--inputs", "3x4, 4x2").status == 0
    pytest.importorskip("torch")
    (tmp_path / "theirs.py").write_text(TORCH)
    assert call("gradcheck", "theirs.py:f", "--inputs", "3x4, 4x2").status == 0
    answer = call("gradcheck", "theirs.py:Square", "--inputs", "2x3", "--mutants")
    assert "gradcheck catches 8 of 8 mistakes in Square.backward" in answer.output, answer


TORCH = """
import torch


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x


def f(x, w):
    return torch.tanh(Square.apply(x) @ w)
"""

JAX = """
import jax
import jax.numpy as jnp


@jax.custom_vjp
def square(x):
    return x * x


def square_forward(x):
    return x * x, x


def square_backward(x, g):
    return (2 * g * x,)


square.defvjp(square_forward, square_backward)


def f(x):
    return jnp.sin(square(x))
"""


def test_functions_of_jax_are_recognized_from_the_file(tmp_path, call):
    jax = pytest.importorskip("jax")
    try:
        (tmp_path / "with_jax.py").write_text(JAX)
        assert call("gradcheck", "with_jax.py:f", "--inputs", "3x4").status == 0
        answer = call("gradcheck", "with_jax.py:square", "--inputs", "2x3", "--mutants")
        assert answer.output.startswith("gradcheck catches 7 of 7 mistakes in square_backward")
    finally:
        jax.config.update("jax_enable_x64", False)


def test_a_file_of_two_frameworks_needs_the_option(tmp_path, refuse):
    pytest.importorskip("torch")
    (tmp_path / "two.py").write_text(
        "import torch\nimport tinyattn\n\n\ndef f(x):\n    return x * 2\n"
    )
    message = refuse("gradcheck", "two.py:f", "--inputs", "3")
    assert "the file uses torch and tinyattn: choose with --framework" in message
