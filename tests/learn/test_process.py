"""A learner's file in its process: loops, crashes and errors end in a sentence, and leave no process behind."""

import os
import subprocess
import sys
import time

import pytest

from tinyattn.learn.exercise import exercise
from tinyattn.learn.process import check_file, gradients_of_file

posix = pytest.mark.skipif(os.name != "posix", reason="process groups")


@pytest.fixture
def softmax_file(tmp_path):
    """A function that writes a softmax.py with a given body of softmax_vjp, and with lines before it."""

    def write(body, before=""):
        path = tmp_path / "softmax.py"
        text = exercise("softmax").file()
        stub = '    raise NotImplementedError("softmax_vjp is yours to write")\n'
        assert stub in text
        body = "".join(f"    {line}\n" for line in body.splitlines())
        path.write_text(
            text.replace(stub, body).replace(
                "import numpy as np\n", f"import numpy as np\n{before}\n", 1
            )
        )
        return path

    return write


RIGHT = "return y * (g - (g * y).sum(axis=axis, keepdims=True))"


def test_a_right_answer_passes_and_what_it_prints_is_shown(softmax_file):
    result, printed = check_file(softmax_file(RIGHT, "print('at import')"), "softmax")
    assert result.passed and printed == "at import"


@posix
def test_an_endless_loop_is_ended(softmax_file, tmp_path):
    body = (
        f"import os\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\nwhile True: pass"
    )
    result, _ = check_file(softmax_file(body), "softmax", seconds=4)
    assert not result.passed and "more than 4 s" in result.diagnosis
    assert is_gone(int((tmp_path / "pid").read_text()))


@posix
def test_processes_that_the_code_starts_end_with_it(softmax_file, tmp_path):
    before = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))"
    )
    result, _ = check_file(softmax_file(RIGHT, before), "softmax")
    assert result.passed
    assert is_gone(int((tmp_path / "pid").read_text()))


def is_gone(pid):
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        with open(f"/proc/{pid}/stat") as file:
            # A zombie has ended, and its parent has not waited for it yet.
            if file.read().rpartition(")")[2].split()[0] == "Z":
                return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("import os; os._exit(3)", "exited with status 3"),
        pytest.param(
            "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV", marks=posix
        ),
        ("import sys; sys.exit()", "SystemExit"),
        ("raise MemoryError", "MemoryError"),
        ("return softmax_vjp(g, y, x, axis)", "RecursionError"),
        ("return input()", "EOFError"),
    ],
)
def test_a_crash_is_a_sentence(softmax_file, body, words):
    result, _ = check_file(softmax_file(body), "softmax")
    assert not result.passed and words in result.diagnosis
    assert "Traceback" not in str(result) and "tinyattn" not in str(result)


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("def broken(:", ": def broken(:"),
        ("import no_such_module", "import no_such_module\n  ModuleNotFoundError"),
        ("1 / 0", ", in <module>: 1 / 0\n  ZeroDivisionError"),
    ],
)
def test_an_error_of_the_file_is_reported_with_its_line(softmax_file, before, words):
    result, _ = check_file(softmax_file(RIGHT, before), "softmax")
    assert not result.passed and words in result.diagnosis
    assert "Traceback" not in str(result)


def test_a_file_without_the_function_is_reported(tmp_path):
    path = tmp_path / "softmax.py"
    path.write_text("def softmax_vpj(g, y, x): return g\n")
    result, _ = check_file(path, "softmax")
    assert not result.passed and "softmax_vjp is not in softmax.py" in str(result)


def test_endless_printing_is_cut(softmax_file):
    body = "while True: print('x' * 1000)"
    result, printed = check_file(softmax_file(body), "softmax", seconds=3)
    assert not result.passed and 0 < len(printed) <= 4000


def test_gradients_at_given_inputs(softmax_file):
    call = ("softmax_vjp", [1.0, 0.0], [0.5, 0.5], [[0.0, 0.0]], {})
    assert gradients_of_file(softmax_file(RIGHT), "softmax", [call]) == [[[0.25, -0.25]]]
    (sentence,) = gradients_of_file(softmax_file("return g.x"), "softmax", [call])
    assert "AttributeError" in sentence


@posix
def test_the_worker_ends_with_the_process_that_started_it(softmax_file, tmp_path):
    body = (
        f"import os\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\nwhile True: pass"
    )
    path = softmax_file(body)
    code = f"from tinyattn.learn.process import check_file; check_file({str(path)!r}, 'softmax')"
    parent = subprocess.Popen([sys.executable, "-c", code])
    try:
        for _ in range(600):
            if (tmp_path / "pid").is_file() and (tmp_path / "pid").read_text():
                break
            time.sleep(0.05)
    finally:
        parent.kill()
        parent.wait()
    assert is_gone(int((tmp_path / "pid").read_text()))
