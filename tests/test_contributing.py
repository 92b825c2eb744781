"""CONTRIBUTING.md is right: its recipes work word for word, its files exist, its diagram is that of the layers."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"^### (Add .*?)\n(.*?)(?=^##)", TEXT, flags=re.DOTALL | re.MULTILINE))
# The three kinds of instruction, each followed by a block of code.
STEP = re.compile(
    r"(?:(?P<create>Create) `(?P<new>[^`]+)`"
    r"|In `(?P<file>[^`]+)`, (?P<how>below|replace) the line `(?P<line>[^`]+)`(?: by)?"
    r"|(?P<run>Run)):\n\n```(?:python|text|sh)\n(?P<code>.*?)```",
    flags=re.DOTALL,
)
EXECUTED = {
    "Add an operation": 5,
    "Add a kernel": 4,
    "Add an attention kind": 3,
    "Add an exercise": 3,
    "Add a command": 4,
}


@pytest.fixture
def copy(tmp_path):
    """A copy of the source tree, to be edited; cached bytecode is copied too, and valid for unchanged files."""
    for name in ("benchmarks", "tinyattn", "tests", "tools"):
        ignored = shutil.ignore_patterns("web", "node_modules", "*.png")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    for name in ("pyproject.toml", "setup.cfg"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def follow(recipe, tree):
    """Apply the instructions of a recipe to a tree, in the order of the text."""
    steps = list(STEP.finditer(recipe))
    for step in steps:
        if step["create"]:
            path = tree / step["new"]
            assert path.parent.is_dir() and not path.exists(), path
            path.write_text(step["code"], encoding="utf-8")
        elif step["file"]:
            edit(tree / step["file"], step["how"], step["line"], step["code"])
        else:
            for command in step["code"].splitlines():
                run(command, tree)
    return steps


def edit(path, how, beginning, code):
    """Insert below, or replace, the one line of a file that begins as given."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    (place,) = (i for i, line in enumerate(lines) if line.startswith(beginning))
    lines[place : place + 1] = [code] if how == "replace" else [lines[place], code]
    path.write_text("".join(lines), encoding="utf-8")


def run(command, tree):
    words = shlex.split(command)
    assert words[0] == "python"
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(
        [sys.executable, *words[1:]], cwd=tree, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    if "pytest" in words:
        assert "passed" in done.stdout


@pytest.mark.parametrize("name", EXECUTED)
def test_a_recipe_works_word_for_word(name, copy):
    assert len(follow(RECIPES[name], copy)) == EXECUTED[name] == RECIPES[name].count("```") / 2


@pytest.mark.parametrize("name", EXECUTED)
def test_a_recipe_without_its_registration_fails(name, copy):
    registration = re.search(
        r"^Register it\..*?```.*?```", RECIPES[name], flags=re.DOTALL | re.MULTILINE
    )
    with pytest.raises(AssertionError):
        follow(RECIPES[name].replace(registration[0], ""), copy)


def test_there_is_a_recipe_for_everything_that_can_be_added():
    assert [*EXECUTED, "Add a backend"] == list(RECIPES)


def test_every_file_that_is_named_exists_or_is_made_by_a_recipe():
    made = {step["new"] for step in STEP.finditer(TEXT) if step["create"]}
    named = set(re.findall(r"`((?:tinyattn|tests|tools|benchmarks|\.ci)/[\w./]+)`", TEXT))
    assert len(named) > 20
    missing = {path for path in named - made if not (ROOT / path).exists()}
    assert {path for path in missing if "NAME" not in path} == set()


def test_the_diagram_shows_the_layers_in_their_order():
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    layers = re.search(r"^layers = \[\n(.*?)^\]", pyproject, flags=re.DOTALL | re.MULTILINE)[1]
    expected = [re.findall(r"\w+", line) for line in re.findall(r'"(.*?)"', layers)]
    diagram = TEXT.partition("## Architecture")[2].partition("\nWhat happens")[0]
    rows = [line[4:39].split() for line in diagram.splitlines() if re.match(r" {5,}\w", line)]
    assert [sorted(row) for row in rows] == [sorted(layer) for layer in expected]
