"""``tinyattn train --minutes``."""

import json
import re
import shlex

import pytest

from tinyattn.train.budget import rule, time_budget
from tinyattn.train.storage.run_directory import RunDirectory


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    """The text is said to be read hardly once, so that a run ends after few steps on any machine."""
    monkeypatch.setattr(rule, "MOST_EPOCHS", 0.1)
    monkeypatch.setattr(time_budget, "_LONGEST_TRIAL", 0.01)


TINY = "--layers 1 --heads 2 --dim 16 --workers 1 --sample-length 5".split()


def test_a_run_with_a_time_prints_what_was_chosen(call, text_file):
    answer = call("train", "--data", text_file, "--minutes", 1000, "--out", "my run", *TINY)
    assert answer.status == 0, answer.error
    config = RunDirectory.open("my run").config()
    steps, block = config.run.steps, config.architecture.block_size
    assert f"1000 minutes here: 1/2/16, block {block}, batch " in answer.output
    assert f" {steps:,} steps of " in answer.output
    assert f"step {steps}/{steps}" in answer.output
    assert "done in" in answer.output

    # The same again, with the number of steps and without a trial.
    again = re.search(r"the same again:  tinyattn (.*)", answer.output)[1]
    repeated = call(*shlex.split(again), "--out", "again")
    assert repeated.status == 0
    assert RunDirectory.open("again").config().run.steps == steps
    assert "minutes here" not in repeated.output
    losses = [re.findall(r"validation (\d\.\d+)", one.output) for one in (answer, repeated)]
    assert losses[0] == losses[1] != []


def test_it_is_stopped_and_resumed_like_any_run(call, text_file):
    words = ["train", "--data", text_file, "--minutes", 1000, "--out", "run", *TINY]
    answer = call(*words, "--stop-after", 3)
    assert answer.status == 0 and "resume with:" in answer.output
    steps = RunDirectory.open("run").config().run.steps
    assert call("train", "--resume", "run").status == 0
    assert RunDirectory.open("run").read_state("last")["step"] == steps


@pytest.mark.parametrize(
    "words, message",
    [
        (["--minutes", "0"], "--minutes must be above 0, given 0"),
        (["--minutes", "-1"], "--minutes must be above 0, given -1"),
        (["--minutes", "nan"], "--minutes must be a finite number, above 0, given nan"),
        (["--minutes", "inf"], "--minutes must be a finite number, above 0, given inf"),
        (["--minutes", "soon"], "soon"),
        (["--minutes", "1", "--steps", "5"], "leave out --steps"),
        (["--minutes", "1", "--resume", "run"], "leave out --minutes"),
        (["--minutes", "1", "--rules", "here"], "leave out --minutes"),
        (["--minutes", "0.0001"], "a run takes at least"),
        (["--minutes", "1", "--heads", "0"], "--heads must be at least 1, given 0"),
        (["--minutes", "1", "--dim", "15", "--heads", "2"], "--dim 15 is not a multiple"),
        (["--minutes", "1", "--block-size", "4000"], "too short for blocks of 4000"),
    ],
)
def test_a_mistake_is_one_sentence_and_starts_no_run(refuse, text_file, tmp_path, words, message):
    said = refuse("train", "--data", text_file, "--workers", 1, *words)
    assert message in said
    assert not (tmp_path / "runs").exists()


def test_steps_in_a_file_are_refused_and_other_options_are_kept(call, refuse, trained, tmp_path):
    assert "leave out --steps" in refuse(
        *("train", "--config", trained / "config.json", "--minutes", "1")
    )
    options = {"data": str(trained.parent), "layers": 1, "heads": 1, "dim": 8}
    (tmp_path / "options.json").write_text(json.dumps(options))
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be, that is the question.\n" * 30)
    words = ["train", "--config", "options.json", "--data", text, "--minutes", 1000, "--workers", 1]
    answer = call(*words, "--out", "run")
    assert answer.status == 0, answer.error
    assert RunDirectory.open("run").config().architecture.dim == 8
