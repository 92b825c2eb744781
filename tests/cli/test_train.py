"""``tinyattn train``: its output, its options, and the files of the run."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tinyattn.train.storage.metrics import read_metrics
from tinyattn.train.storage.run_directory import RunDirectory

from .conftest import TINY


def test_a_run_prints_its_progress_and_the_command_that_samples_from_it(call, text_file):
    answer = call(
        *("train", "--data", text_file, "--steps", 20, "--evaluate-every", 10),
        *("--sample-every", 20, "--sample-length", 30, *TINY),
    )
    assert answer.status == 0, answer.error
    lines = answer.output.splitlines()
    assert lines[0].startswith("text   ") and "984 characters (30 distinct)" in lines[0]
    evaluations = [line for line in lines if "validation " in line and line.startswith("step")]
    assert len(evaluations) == 2
    assert all("unigram" in line and "bigram" in line for line in evaluations)
    assert "--- text sample after step 20" in lines
    assert lines[-1] == 'generate text with:  tinyattn sample runs/text-fast --prompt "..."'
    run = RunDirectory.open("runs/text-fast")
    assert {path.name for path in run.path.iterdir()} == {
        *("best", "last", "config.json", "vocab.json", "metrics.jsonl", "loss.png"),
    }


@pytest.mark.parametrize(
    "kind, title, unit",
    [
        ("bytes", "984 characters, 984 bytes (256 distinct), 885 for training", "byte"),
        ("bpe", r"984 characters, \d+ tokens \(280 distinct\), \d+ for training", "token"),
    ],
)
def test_losses_of_other_tokens_are_in_bits_per_character_too(call, text_file, kind, title, unit):
    size = []
    if kind == "bpe":
        pytest.importorskip("tokenizers")
        size = ["--vocabulary-size", 280]
    answer = call("train", "--data", text_file, "--tokenizer", kind, *size, "--steps", 2, *TINY)
    assert answer.status == 0, answer.error
    assert re.search(title if kind == "bpe" else re.escape(title), answer.output)
    assert re.search(r"validation \d\.\d+, \d\.\d+ bits/char \(best\)", answer.output)
    last = rf"best validation loss \d\.\d+ nats per {unit} \(\d\.\d+ bits per character\) at step 2"
    assert re.search(last, answer.output)
    run = "runs/text-fast"
    assert call("sample", run, "--prompt", "注意 ", "--length", 5).output.startswith("注意 ")
    assert call("gradcheck", run).status == 0
    assert call("explore", run, "--text", "naïve", "-o", "page.html").status == 0


def test_options_override_a_file_and_a_file_overrides_the_preset(
    call, trained, text_file, tmp_path
):
    file = tmp_path / "options.json"
    options = {"preset": "nanogpt-cpu", "heads": 4, "steps": 3, "dim": 16, "out": "given"}
    file.write_text(json.dumps(options))
    words = ["train", "--config", file, "--data", text_file, "--heads", 2]
    assert call(*words, "--block-size", 8, "--layers", 1).status == 0
    config = RunDirectory.open("given").config()
    assert (config.run.preset, config.architecture.heads, config.run.steps) == ("nanogpt-cpu", 2, 3)
    assert config.architecture.positions == "learned"

    # A run's own config.json is such a file; it takes a new directory.
    assert call("train", "--config", trained / "config.json", "--steps", 2).status == 0
    config = RunDirectory.open("runs/text-fast").config()
    assert (config.run.steps, config.architecture.dim) == (2, 16)


def test_the_resume_command_is_quoted_for_the_shell(call, text_file):
    words = ["train", "--data", text_file, "--steps", 2, "--out", "my run", *TINY]
    answer = call(*words, "--stop-after", 1)
    again = shlex.split(answer.output.splitlines()[-1].removeprefix("resume with:"))
    answer = call(*again[1:])
    assert answer.status == 0, answer.error
    assert "tinyattn sample 'my run' --prompt" in answer.output


def test_a_stopped_run_is_resumed(call, text_file):
    words = ["train", "--data", text_file, "--steps", 8, "--out", "run", *TINY]
    answer = call(*words, "--stop-after", 3)
    assert answer.status == 0
    assert answer.output.endswith(
        "saved after step 3 of 8\nresume with:  tinyattn train --resume run\n"
    )
    answer = call("train", "--resume", "run")
    assert answer.status == 0
    assert "resuming after step 3" in answer.output
    lines = read_metrics("run/metrics.jsonl")
    assert [line["step"] for line in lines if "loss" in line] == list(range(1, 9))


def test_help_shows_every_option_with_default_and_unit(call):
    answer = call("train", "--help")
    text = " ".join(answer.output.replace("│", " ").split())
    assert answer.status == 0
    # Some versions of the command-line library name the type before the description.
    assert re.search(r"--steps (INT )?Optimizer steps in total \[steps\]\. \[default: 300\]", text)
    for name in ("--data", "--preset", "--out", "--device", "--workers", "--seed", "--resume"):
        assert name in text
    assert "--learning-rate" in text and "[per step]" in text
    # Inherited settings have their help too.
    assert re.search(r"--dim (INT )?Width of the residual stream", text)
    assert not re.search(r"--[a-z-]+ ([A-Z]+ )?\[(default|choices)", text)
    assert (
        "nanogpt-cpu: --positions learned --activation gelu --no-qk-norm --optimizer adamw" in text
    )


# ---- the picture


@pytest.mark.parametrize(
    "error",
    [OSError(28, "No space left on device"), ImportError("matplotlib"), RuntimeError("a\nb")],
)
def test_a_run_is_finished_even_if_its_loss_curve_cannot_be_drawn(
    call, refuse, text_file, monkeypatch, error
):
    def fail(*arguments):
        raise error

    words = ["train", "--data", text_file, "--steps", 2, "--out", "run", *TINY]
    with monkeypatch.context() as patch:
        patch.setattr("tinyattn.train.picture.write_atomic", fail)
        answer = call(*words)
        assert answer.status == 0 and "done in" in answer.output
        assert answer.error.startswith("tinyattn: run/loss.png could not be drawn (")
        assert "tinyattn train --resume run draws it" in answer.error
        assert answer.error.count("\n") == 1
        assert call("train", "--resume", "run").status == 1
    answer = call("train", "--resume", "run")
    assert (answer.status, answer.error) == (0, "")
    assert answer.output == "the run run is finished: drew the missing run/loss.png\n"
    assert Path("run/loss.png").read_bytes().startswith(b"\x89PNG")
    assert "has done its 2 steps" in refuse("train", "--resume", "run")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="takes a directory none may write to")
def test_no_directory_for_matplotlib_is_a_warning(text_file, tmp_path):
    script = "import sys, tempfile; tempfile.tempdir = '/proc/none'\n"
    script += "from tinyattn.cli import main\nsys.exit(main())"
    words = ["train", "--data", str(text_file), "--steps", "2", "--out", "run", *TINY]
    nowhere = ("HOME", "MPLCONFIGDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
    result = subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
            **dict.fromkeys(nowhere, "/proc/none"),
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr.startswith("tinyattn: run/loss.png could not be drawn (")
    assert result.stderr.count("\n") == 1


def test_a_run_without_digests_causes_one_warning(call, text_file):
    words = ["train", "--data", text_file, "--steps", 4, "--stop-after", 2, "--out", "run", *TINY]
    assert call(*words).status == 0
    for file in (Path("run/config.json"), Path("run/last/state.json")):
        content = json.loads(file.read_text())
        content.pop("belongs_to", None)
        content.pop("evaluated_step", None)
        del content["sha256"]
        file.write_text(json.dumps(content))
    answer = call("train", "--resume", "run")
    assert answer.status == 0
    assert answer.error == (
        "tinyattn: the run run was written before states had digests: damage to it cannot be detected\n"
    )
    assert call("sample", "run", "--length", 3).error == ""
