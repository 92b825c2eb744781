"""The course in a directory: no file of the learner's is overwritten, and the record says what was done."""

import inspect
import json
import re
import subprocess
import sys
import textwrap

import pytest

from tinyattn.data import InputError
from tinyattn.learn import course
from tinyattn.learn.exercise import PATH, Vjp, exercise

from .right_answers import RIGHT

ANSWER = "return y * (g - (g * y).sum(axis=axis, keepdims=True))"


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_answer(path, body=ANSWER):
    text = path.read_text()
    assert "raise NotImplementedError" in text
    path.write_text(re.sub(r"raise NotImplementedError\(.*\)", body, text))


def record(directory):
    return json.loads((directory / "progress.json").read_text())


@pytest.mark.parametrize("name", PATH)
def test_every_exercise_is_a_file_that_says_what_is_to_be_written(name, directory):
    said = course.start(name)
    text = (directory / f"{name}.py").read_text()
    one = exercise(name)
    for part in one.parts:
        assert f"def {part.name}(" in text and part.name in said
    assert one.words.strip() in text and "tinyattn.learn" not in text
    compile(text, name, "exec")
    assert max(map(len, text.splitlines())) <= 120
    assert len(one.hints) == 3 and all("?" in hint for hint in one.hints)
    assert 10 <= one.minutes <= 40


@pytest.mark.parametrize("name", PATH)
def test_the_place_to_try_shows_what_is_right(name, directory):
    course.start(name)
    text = (directory / f"{name}.py").read_text()
    answers = [
        next(textwrap.dedent(inspect.getsource(f)) for n, f in RIGHT if n == part.name)
        for part in exercise(name).parts
    ]
    for part, answer in zip(exercise(name).parts, answers):
        answer = re.sub(r"^@.*\n", "", answer).replace(
            answer[answer.index("def ") :].split("(")[0], f"def {part.name}"
        )
        text = text.replace("# A place to try", f"{answer}\n\n# A place to try")
    (directory / f"{name}.py").write_text(
        text.replace("import numpy as np", "import math\nimport numpy as np")
    )
    run = subprocess.run([sys.executable, f"{name}.py"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "expected" in run.stdout
    for given, expected in re.findall(r"\[([^\[\]]*)\]+ +expected \[([^\[\]]*)\]", run.stdout):
        numbers = [float(word) for word in given.replace(",", " ").split()]
        assert numbers == pytest.approx([float(word) for word in expected.split(",")], abs=6e-4)


def test_nothing_of_the_learners_is_overwritten(directory):
    course.start("softmax")
    (directory / "softmax.py").write_text("# mine")
    with pytest.raises(InputError, match="exists and is not overwritten"):
        course.start("softmax")
    assert "softmax.py is now softmax_1.py" in course.reset("softmax")
    (directory / "softmax.py").write_text("# again")
    course.reset("softmax")
    assert (directory / "softmax_1.py").read_text() == "# mine"
    assert (directory / "softmax_2.py").read_text() == "# again"
    assert "yours to write" in (directory / "softmax.py").read_text()


def test_a_check_is_noted_and_the_path_shows_it(directory):
    course.start("softmax")
    text, passed = course.check("softmax.py")
    assert not passed and "not written yet" in text
    write_answer(directory / "softmax.py", "return y * g")
    text, passed = course.check("softmax")
    assert not passed and "lacks the subtracted mean" in text and "--hint" in text
    write_again = (directory / "softmax.py").read_text().replace("return y * g\n", ANSWER + "\n")
    (directory / "softmax.py").write_text(write_again)
    text, passed = course.check("softmax.py")
    assert passed and "next:  tinyattn learn start cross_entropy" in text
    of = record(directory)["softmax"]
    assert of["checks"] == 3 and of["passed"].endswith("+00:00")
    line = next(line for line in course.overview().splitlines() if " softmax " in line)
    assert "done" in line


def test_hints_come_one_after_the_other_and_are_counted(directory):
    hints = exercise("softmax").hints
    for number in (1, 2, 3, 3):
        said = course.hint("softmax")
        assert f"Hint {number} of 3" in said
        assert hints[number - 1].split()[0] in said
    assert record(directory)["softmax"]["hints"] == 3


@pytest.mark.parametrize("name", PATH)
def test_the_solution_has_the_derivation_and_our_code(name, directory):
    said = course.solution(name)
    for part in exercise(name).parts:
        assert "def " in said
        if isinstance(part, Vjp):
            assert "Backward." in said
    assert "solution" in record(directory)[name]


def test_the_solution_is_printed_next_to_the_learners_code(directory):
    course.start("sigmoid")
    write_answer(directory / "sigmoid.py", "return 17 * g")
    assert re.search(r"return g \* y \* sigmoid.rule\(-x\) +\|", course.solution("sigmoid.py"))
    assert "|      return 17 * g" in course.solution("sigmoid.py")


def test_a_file_of_another_name_needs_its_exercise(directory):
    (directory / "mine.py").write_text("def sigmoid_vjp(g, y, x):\n    return g * y * (1 - y)\n")
    with pytest.raises(InputError, match="named after no exercise"):
        course.check("mine.py")
    _, passed = course.check("mine.py", "sigmoid")
    assert passed


def test_a_missing_file_and_a_damaged_record_are_errors(directory):
    with pytest.raises(InputError, match="tinyattn learn start gelu"):
        course.check("gelu.py")
    with pytest.raises(InputError, match="did you mean softmax"):
        course.start("sofmax")
    (directory / "progress.json").write_text("[1]")
    with pytest.raises(InputError, match="no record of exercises"):
        course.overview()
