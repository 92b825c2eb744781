"""The command ``tinyattn gradcheck``."""

import numpy as np
import pytest

from tinyattn.autograd import PRIMITIVES
from tinyattn.cli import main


def test_one_operation_gives_a_table_and_a_closing_line(capsys):
    assert main(["gradcheck", "--op", "softmax"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:3]] == [["softmax", "rule"], ["softmax", "kernel"]]
    assert lines[-1].startswith("all right: 1 rule, 1 kernel; first and second order; ")


def test_a_block_goes_by_its_name(capsys):
    assert main(["gradcheck", "--op", "LayerNorm", "--order", "1"]) == 0
    assert "LayerNorm" in capsys.readouterr().out


def test_a_wrong_gradient_gives_status_1_and_says_what_is_wrong(capsys, monkeypatch):
    right = PRIMITIVES["tanh"].vjps[0]
    monkeypatch.setitem(PRIMITIVES["tanh"].vjps, 0, lambda g, y, x: 1.001 * right(g, y, x))
    assert main(["gradcheck", "--op", "tanh"]) == 1
    out = capsys.readouterr().out
    assert "operation   tanh" in out and "reproduce   ta.gradcheck(tanh" in out
    assert out.splitlines()[-1].startswith("WRONG: 1 of 1: tanh (rule)")


@pytest.mark.parametrize(
    "words, message",
    [
        (["--op", "sofmax"], "did you mean softmax"),
        (["--op", "nope"], "did you mean ne"),
        (["--break", "sofmax"], "expected one of add"),
        (["--break", "softmax", "--op", "softmax"], "--break cannot be combined with RUN"),
        (["--op", "qqqqqq"], "'qqqqqq'; tinyattn gradcheck, without --op"),
        (["--html", "nowhere/page.html"], "there is no directory"),
        (["--html", ".", "--op", "softmax"], "--html . is a directory: give the name of a file"),
        (["--device", "tpu"], "tpu"),
        (["no_such_run"], "no_such_run"),
    ],
)
def test_a_mistake_of_the_users_gives_status_2_and_one_sentence(words, message, capsys):
    assert main(["gradcheck", *words]) == 2
    captured = capsys.readouterr()
    assert message in captured.err and len(captured.err.splitlines()) == 1


def test_break_prints_which_check_catches_each_mutation(capsys):
    assert main(["gradcheck", "--break", "softmax"]) == 0
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if "returns zeros" in line]
    assert line.split()[-3:] == ["missed", "caught", "caught"]
    assert (
        "missed of 14 mutations: 4 with the cotangent ones, 0 with sum(y**2), 0 with random" in out
    )


def test_a_page_is_written(tmp_path, capsys):
    path = tmp_path / "page.html"
    assert main(["gradcheck", "--op", "gelu", "--html", str(path)]) == 0
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>") and 'id="gelu"' in text


def test_the_model_of_a_run_is_checked_and_left_as_it_is(tmp_path, capsys):
    out = tmp_path / "run"
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be, that is the question. " * 40, encoding="utf-8")
    words = "--steps 2 --layers 1 --heads 2 --dim 8 --block-size 8 --batch-size 2".split()
    assert main(["train", "--data", str(text), "--out", str(out), *words]) == 0
    capsys.readouterr()
    with np.errstate(all="ignore"):
        assert main(["gradcheck", str(out)]) == 0
    assert "all right:" in capsys.readouterr().out.splitlines()[-1]
