"""The programs, outputs and names in the README are correct."""

import contextlib
import functools
import importlib.util
import io
import re
import shlex
from pathlib import Path

import pytest

import tinyattn as ta
from tinyattn.cli import main

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
# The excerpt of a rule leaves lines out, with "..."; the others are programs.
PROGRAMS = [
    code
    for code in re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    if "    ...\n" not in code
]


def output_of(*arguments):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(list(arguments)) == 0
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_the_programs_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = tmp_path / "text.txt"
    text.write_text("O Romeo, Romeo! wherefore art thou Romeo?\n" * 40)
    small = ["--layers", "1", "--heads", "1", "--dim", "8", "--block-size", "16"]
    output_of("train", "--data", "text.txt", "--out", "RUN", "--steps", "2", *small)
    names = {}
    for program in PROGRAMS:
        if all(map(importlib.util.find_spec, re.findall("^import (torch|jax)$", program, re.M))):
            exec(program, names)
    assert (tmp_path / "maps.png").exists()
    assert names["record"]["blocks.0.attention.weights"].gradient is not None


def test_the_commands_for_gpt2_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mytext.txt").write_text("The meaning of life is to be.\n" * 40)
    small = "--preset gpt2-shaped --layers 1 --heads 1 --dim 8 --steps 2 --workers 1 --out small".split()
    output_of("train", "--data", "mytext.txt", *small)
    output_of("export", "small", "--out", "gpt2")
    section = README.partition("## GPT-2, in and out")[2].partition("\n## ")[0]
    commands = re.findall(r"    \$ tinyattn (.*)", section)
    assert len(commands) == 7
    for command in commands:
        words = shlex.split(command)
        short = "--steps 2 --sample-every 0 --evaluate-characters 100 --workers 1".split()
        if "gpt2-shaped" in words:
            short += "--data mytext.txt --layers 1 --heads 1 --dim 8".split()
        output_of(*words, *(short if words[0] == "train" else []))
    assert (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    "command",
    [
        "explain softmax",
        "gradcheck --break layer_norm",
        "gradcheck examples/gradients/.* --mutants",
    ],
)
def test_the_outputs_are_printed(command):
    shown = re.search(rf"    \$ tinyattn ({command}.*)\n((?:    .*\n|\n(?=    ))+)", README)
    lines = [line[4:].rstrip() for line in shown[2].splitlines()]
    printed = output_of(*shlex.split(shown[1]))
    missing = [line for line in lines if line not in printed and line != "..."]
    assert not missing


def test_the_pictures_exist():
    paths = re.findall(r"!\[[^]]*\]\(([^)]+)\)", README)
    assert paths and all((Path(__file__).parents[1] / path).exists() for path in paths)


def test_the_names_for_pytorch_users_exist():
    table = README.partition("## Coming from PyTorch")[2].partition("\n## ")[0]
    names = set(re.findall(r"`[^`]*?\bta\.([a-z]\w*(?:\.\w+)*)", table))
    assert {"concatenate", "save", "data.ArrayBatches", "optim.schedules.warmup_cosine"} <= names
    for name in names:
        functools.reduce(getattr, name.split("."), ta)
