"""Fixtures: a trained run, and the command in this process or in a subprocess."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tinyattn.cli import main

TEXT = "the quick brown fox jumps over the lazy dog.\nhow vexingly quick daft zebras jump!\n" * 12
TINY = "--layers 1 --heads 2 --dim 16 --block-size 8 --batch-size 4 --workers 1".split()


@dataclass
class Answer:
    status: int
    output: str
    error: str


@pytest.fixture(scope="session")
def text_file(tmp_path_factory):
    """A text file of about a thousand characters."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(TEXT, newline="")
    return path


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """Run the command in this process, in an empty directory, and return its ``Answer``."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        status = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Answer(status, captured.out, captured.err)

    return run


@pytest.fixture
def refuse(call):
    """Run the command, check that it exits with status 2 and a one-line message, and return the message."""

    def run(*words):
        answer = call(*words)
        assert answer.status == 2, answer
        assert "Traceback" not in answer.error
        assert answer.error.startswith("tinyattn: ")
        assert answer.error.count("\n") == 1, answer.error
        return answer.error

    return run


@pytest.fixture(scope="session")
def trained(tmp_path_factory, text_file):
    """Directory of a finished tiny run; read-only."""
    path = tmp_path_factory.mktemp("runs") / "run"
    words = ["train", "--data", str(text_file), "--out", str(path), "--steps", "20", *TINY]
    assert main(words) == 0
    return path


def command(*words, **options):
    """Start the command in a subprocess."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
        "OPENBLAS_NUM_THREADS": "1",
        **options.pop("env", {}),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "tinyattn", *map(str, words)],
        env=environment,
        **options,
    )
