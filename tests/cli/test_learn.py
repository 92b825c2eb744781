"""``tinyattn learn``: statuses, sentences for mistakes, and watching a file."""

import os
import signal
import sys
import threading
import time

import pytest

from .conftest import command

ANSWER = "return y * (g - (g * y).sum(axis=axis, keepdims=True))"


def replace_stub(path, body):
    lines = path.read_text().splitlines()
    path.write_text(
        "\n".join(f"    {body}" if "raise Not" in line else line for line in lines) + "\n"
    )


def test_from_the_path_to_a_right_answer(call, tmp_path):
    answer = call("learn")
    assert answer.status == 0 and "next  cotangent" in answer.output
    assert call("learn", "start", "softmax").status == 0
    assert call("learn", "check", "softmax.py").status == 1
    replace_stub(tmp_path / "softmax.py", ANSWER)
    answer = call("learn", "check", "softmax.py")
    assert answer.status == 0 and "right" in answer.output and not answer.error
    assert call("learn", "see", "softmax").status == 0
    assert "Hint 1 of 3" in call("learn", "check", "softmax.py", "--hint").output
    assert "Backward." in call("learn", "check", "softmax.py", "--solution").output
    assert "softmax_1.py" in call("learn", "reset", "softmax").output
    assert "done  softmax" in call("learn").output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["start", "sofmax"], "did you mean softmax"),
        (["check", "gelu.py"], "tinyattn learn start gelu"),
        (["check", "mine.py"], "named after no exercise"),
        (["check", "gelu.py", "--seconds", "0"], "--seconds must be above 0"),
        (["see", "graph"], "begin with tinyattn learn start graph"),
    ],
)
def test_a_mistake_of_the_users_is_a_sentence(refuse, words, said):
    assert said in refuse("learn", *words)


def test_help_says_with_which_permissions_the_file_runs(call):
    assert "with your permissions" in " ".join(call("learn", "--help").output.split())


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_watch_checks_again_at_each_save_until_it_is_interrupted(call, tmp_path):
    call("learn", "start", "sigmoid")
    path = tmp_path / "sigmoid.py"
    process = command("learn", "check", str(path), "--watch", text=True)
    seen = []
    reader = threading.Thread(
        target=lambda: seen.extend(iter(process.stdout.readline, "")), daemon=True
    )
    reader.start()
    try:
        wait_for(seen, "not written yet")
        wait_for(seen, "waiting for the next save")
        replace_stub(path, "return g * y * (1 - y)")
        wait_for(seen, "is right")
        wait_for(seen, "saved again")
        while sum("waiting" in line for line in seen) < 2:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()


def wait_for(lines, words):
    for _ in range(1200):
        if any(words in line for line in lines):
            return
        time.sleep(0.05)
    raise AssertionError(f"{words!r} not in {lines}, {sys.platform}")
