"""The pytest plugin, in runs of pytest on small test files."""

import re

import pytest

pytest_plugins = ["pytester"]

RULE = """
import numpy as np

def sin_backward(g, x):
    return g * np.cos(x)

def wrong(g, x):
    return g * np.sin(x)
"""

RIGHT = """
def test_sin(assert_gradients):
    x = assert_gradients.random.standard_normal((2, 3))
    print("first", x[0, 0])
    report = assert_gradients((np.sin, sin_backward), x)
    assert report.verdict == "right"
    assert_gradients((np.sin, sin_backward), x, mode="fast")
"""

WRONG = """
def test_wrong(assert_gradients):
    assert_gradients((np.sin, wrong), np.ones(2))
"""

UNSURE = """
def test_unsure(assert_gradients):
    assert_gradients((lambda x: np.sin(x) + 1e10, sin_backward), np.ones(2))
"""


@pytest.fixture
def run(pytester):
    """Run pytest with the plugin on a test file that consists of ``RULE`` and other sources."""

    def run_pytest(*sources, options=()):
        pytester.makepyfile(test_rule=RULE + "".join(sources))
        plugin = (
            "-p",
            "tinyattn.checker.pytest_plugin",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
        )
        return pytester.runpytest_inprocess(*plugin, *options)

    return run_pytest


def test_right_gradients_pass_and_are_counted(run):
    result = run(RIGHT)
    result.assert_outcomes(passed=1)
    result.stdout.re_match_lines([r"gradcheck: 2 right; --gradcheck-seed \d+"])


def test_wrong_and_unsure_gradients_fail_with_the_way_to_see_them_again(run):
    result = run(RIGHT, WRONG, UNSURE, options=["--gradcheck-seed", "5"])
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*GradcheckError: the gradient of inputs[[]0] is wrong*",
            "to reproduce: pytest 'test_rule.py::test_wrong' --gradcheck-seed 5",
            "*GradcheckInconclusive: cannot tell whether*",
            "gradcheck: 2 right, 1 wrong, 1 cannot tell; --gradcheck-seed 5",
        ]
    )
    assert "pytest_plugin.py:" not in result.stdout.str()  # the trace ends at the test


def first_number(result):
    return re.search(r"first (\S+)", result.stdout.str()).group(1)


def test_a_seed_gives_the_same_inputs_again_and_another_run_has_other_ones(run):
    one, again = (first_number(run(RIGHT, options=["-s", "--gradcheck-seed=3"])) for _ in "ab")
    other = first_number(run(RIGHT, options=["-s"]))
    assert one == again != other


def test_inputs_do_not_depend_on_other_tests(run):
    options = ["-s", "--gradcheck-seed=3"]
    assert first_number(run(WRONG, RIGHT, options=options)) == first_number(
        run(RIGHT, options=options)
    )


def test_the_xml_report_holds_the_verdicts(run, pytester):
    run(RIGHT, WRONG, options=["--junit-xml=report.xml"])
    text = (pytester.path / "report.xml").read_text()
    assert '<property name="gradcheck" value="right: sin, 6 checked, within' in text
    assert '<property name="gradcheck" value="wrong: the gradient of inputs[0] is wrong' in text


def test_a_run_without_gradient_tests_says_nothing(run):
    result = run("\ndef test_nothing(): pass\n")
    assert "gradcheck" not in result.stdout.str()


def test_a_negative_seed_is_refused(run):
    assert run(RIGHT, options=["--gradcheck-seed=-1"]).ret == pytest.ExitCode.USAGE_ERROR


def test_the_workers_of_xdist_have_the_seed_of_the_run(pytester):
    pytest.importorskip("xdist")
    pytester.makepyfile(test_rule=RULE + WRONG)
    words = ["-p", "xdist", "-p", "tinyattn.checker.pytest_plugin", "-p", "no:cacheprovider"]
    output = pytester.runpytest_subprocess(*words, "-n", "1").stdout.str()
    seeds = set(re.findall(r"--gradcheck-seed (\d+)", output))
    assert len(seeds) == 1, output
