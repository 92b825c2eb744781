"""Each example runs in a quick mode, and its claim holds."""

import os
import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_example_runs_and_asserts_its_claim(script, tmp_path):
    done = subprocess.run(
        [sys.executable, str(script), "--quick", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the claim holds" in done.stdout
    assert "Warning" not in done.stderr
    if script.stem in ("attention_kinds", "cost_against_length"):
        assert "--quick is too short to show" in done.stdout
    if script.stem == "cost_against_length":  # no exponent of times that say nothing
        _, _, times = done.stdout.partition("processor time, ms:")
        (dense,) = [line for line in times.splitlines() if line.split()[:1] == ["dense"]]
        assert dense.split()[-1] == "-"
    pictures = list(tmp_path.glob("*.png"))
    assert pictures and all(picture.stat().st_size > 5000 for picture in pictures)


def test_every_example_says_which_section_of_the_article_it_belongs_to():
    for script in SCRIPTS:
        head = script.read_text(encoding="utf-8").split('"""')[1]
        assert "Article, section" in head, script.name


def test_the_directory_has_only_examples_and_the_readme():
    for script in SCRIPTS:
        text = script.read_text(encoding="utf-8")
        assert "@example" in text and "main()" in text, f"{script.name} is no example"
