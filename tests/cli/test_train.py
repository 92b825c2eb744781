"""``tinyattn train``: what it prints and leaves, and how it refuses what it cannot use."""

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tinyattn.cli.display import PlainDisplay
from tinyattn.cli.train import _Interruption
from tinyattn.train.storage.metrics import read_metrics
from tinyattn.train.storage.run_directory import RunDirectory
from tinyattn.train.trainer import Trainer

from .conftest import TINY, command


def test_a_run_prints_its_way_and_says_how_to_go_on(call, text_file):
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


def test_options_win_over_a_file_and_a_file_over_the_preset(call, trained, text_file, tmp_path):
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


def test_the_command_to_go_on_with_can_be_copied_whatever_the_path(call, text_file):
    words = ["train", "--data", text_file, "--steps", 2, "--out", "my run", *TINY]
    answer = call(*words, "--stop-after", 1)
    again = shlex.split(answer.output.splitlines()[-1].removeprefix("resume with:"))
    answer = call(*again[1:])
    assert answer.status == 0, answer.error
    assert "tinyattn sample 'my run' --prompt" in answer.output


def test_a_stopped_run_goes_on_with_resume(call, text_file):
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


# ---- bad input


@pytest.mark.parametrize(
    "content, message",
    [
        (None, "there is no file"),
        (b"", "is empty"),
        (b"  \n\n", "nothing but white space"),
        (b"good so far\n\xff\xfe", "byte 0xff at offset 12 (line 2)"),
        (b"short", "too short for blocks of 64"),
        (b"abcdefghij" * 10, "90 are for training and 10 for validation"),
    ],
)
def test_a_text_that_cannot_be_used(refuse, tmp_path, content, message):
    if content is not None:
        (tmp_path / "given.txt").write_bytes(content)
    assert message in refuse("train", "--data", "given.txt")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "words, message",
    [
        (["--steps", "0"], "--steps must be at least 1, given 0"),
        (["--steps", "many"], "many"),
        (["--steps", "1.5"], "--steps must be a whole number, given 1.5"),
        (
            ["--steps", "9" * 20],
            "--steps must be at most 1,000,000,000, given 99999999999999999999",
        ),
        (["--dropout", "1.5"], "--dropout must be at least 0 and below 1, given 1.5"),
        (["--learning-rate", "nan"], "--learning-rate must be a finite number, above 0, given nan"),
        (["--heads", "3"], "--dim 128 is not a multiple of --heads 3"),
        (["--preset", "slow"], "fast"),
        (["--stpes", "3"], "unknown option --stpes: did you mean --steps"),
        (["--device", "tpu"], "unknown device 'tpu'"),
        (["--config", "none.json"], "there is no file none.json"),
        (["--resume", "nowhere"], "there is no directory nowhere"),
        (["--out"], "--out requires an argument"),
    ],
)
def test_an_option_that_cannot_be_used(refuse, words, message):
    said = refuse("train", *words)
    # The command-line library quotes names in some versions and not in others.
    assert message in said.replace('"', "")


def test_too_little_memory_is_one_sentence(refuse, monkeypatch):
    def begin(*arguments, **options):
        raise MemoryError("Unable to allocate 7 TiB")

    monkeypatch.setattr("tinyattn.cli.train.begin", begin)
    assert "not enough memory (Unable to allocate 7 TiB): use a smaller batch" in refuse("train")


def test_a_config_file_that_is_none(refuse, tmp_path):
    for content, message in [
        (b"{", "is not JSON"),
        (b"[]", "must contain a JSON object"),
        (b'{"stepz": 3}', "unknown option 'stepz'"),
        (b'{"run": {"out": 3}}', "--out must be text, given 3"),
        (b"\xff", "is not UTF-8"),
    ]:
        (tmp_path / "options.json").write_bytes(content)
        assert message in refuse("train", "--config", "options.json")


def test_a_directory_that_holds_a_run_is_left_alone(refuse, trained, text_file):
    before = {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}
    message = refuse("train", "--data", text_file, "--out", trained)
    assert "already contains a run" in message and f"--resume {trained}" in message
    assert {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()} == before


def test_an_out_that_is_a_file(refuse, text_file, tmp_path):
    (tmp_path / "file").write_text("")
    assert "is a file" in refuse("train", "--data", text_file, "--out", "file")


def test_a_run_finds_its_text_from_any_directory(refuse, call, text_file, tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_bytes(text_file.read_bytes())
    words = ["train", "--data", "text.txt", "--out", "run", "--steps", 4, "--stop-after", 2, *TINY]
    assert call(*words).status == 0
    monkeypatch.chdir(tmp_path / "run")
    (tmp_path / "text.txt").rename(tmp_path / "moved.txt")
    message = refuse("train", "--resume", tmp_path / "run")
    assert f"{tmp_path}/text.txt, is missing: give it with --data" in message
    assert (
        call("train", "--resume", "../run", "--data", "../moved.txt", "--stop-after", 1).status == 0
    )
    monkeypatch.chdir(tmp_path)
    answer = call("train", "--resume", "run")
    assert answer.status == 0 and answer.output.startswith("text   moved.txt: 984 characters")


def test_several_texts_are_joined_as_they_are(call, text_file, tmp_path):
    text = text_file.read_text()
    (tmp_path / "a.txt").write_text(text[:500])
    (tmp_path / "b.txt").write_text(text[500:])
    words = ["--steps", 4, "--stop-after", 2, *TINY]
    assert call("train", "--data", text_file, "--out", "one", *words).status == 0
    answer = call("train", "--data", "a.txt", "b.txt", *words)
    assert answer.status == 0 and answer.output.startswith("text   a.txt, b.txt: 984 characters")
    assert "run    runs/a+b-fast" in answer.output
    one, two = RunDirectory.open("one"), RunDirectory.open("runs/a+b-fast")
    assert one.read_state("last")["corpus"]["sha256"] == two.read_state("last")["corpus"]["sha256"]
    config = json.loads((two.path / "config.json").read_text())
    assert config["run"]["data"] == [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")]
    assert call("train", "--resume", "runs/a+b-fast").status == 0
    # One after the other, and from a configuration file.
    assert call("train", "--data=a.txt", "--data", "b.txt", "--out", "three", *words).status == 0
    (tmp_path / "o.json").write_text('{"data": ["a.txt", "b.txt"]}')
    assert call("train", "--config", "o.json", "--out", "four", *words).status == 0
    for name in ("three", "four"):
        assert RunDirectory.open(name).config().run.data == two.config().run.data


@pytest.mark.parametrize("words", [["--data", "-"], ["--data=-"], ["--data", "part.txt", "-"]])
def test_a_text_comes_from_standard_input(call, refuse, text_file, tmp_path, monkeypatch, words):
    text = text_file.read_bytes()
    (tmp_path / "part.txt").write_bytes(text[:300])
    rest = text[300:] if "part.txt" in words else text

    def typed():
        return io.TextIOWrapper(io.BytesIO(rest), encoding="ascii")

    monkeypatch.setattr(sys, "stdin", typed())
    words = ["train", *words, "--out", "run", "--steps", 4, "--stop-after", 2, *TINY]
    answer = call(*words)
    assert answer.status == 0 and "standard input: 984 characters" in answer.output
    if "part.txt" not in words:
        assert "came from standard input: give it again with --data" in refuse(
            "train", "--resume", "run"
        )
        answer = call("explore", "run")
        assert (
            answer.status == 2
            and "standard input (--data -) can be read only when a run starts" in answer.error
        )
        monkeypatch.setattr(sys, "stdin", typed())
        words = ["train", "--resume", "run", "--stop-after", 1]
        assert call(*words, "--data", "-").status == 0
    assert call("train", "--resume", "run", "--data", text_file).status == 0


def test_standard_input_with_nothing_in_it(refuse, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(" \n"))
    assert "standard input is nothing but white space" in refuse("train", "--data", "-")


def test_a_home_directory_is_found_behind_every_option(
    call, refuse, text_file, tmp_path, monkeypatch
):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (home / "text.txt").write_bytes(text_file.read_bytes())
    (home / "o.json").write_text('{"data": "~/text.txt", "out": "~/runs/b"}')
    words = ["--steps", 2, *TINY]
    assert call("train", "--data=~/text.txt", "--out=~/runs/a", *words).status == 0
    assert call("train", "--config=~/o.json", *words).status == 0
    assert "has done its 2 steps" in refuse("train", "--resume=~/runs/b")
    assert call("sample", "~/runs/b", "--length", 2).status == 0
    assert call("explore", "~/runs/a", "--text", "the fox", "-o", "~/page.html").status == 0
    assert call("explore", "~/runs/a", "--text", "the fox", "--output=~/page2.html").status == 0
    assert call("gradcheck", "--op", "exp", "--html=~/report.html").status == 0
    assert {path.name for path in home.iterdir()} == {
        *("text.txt", "o.json", "runs", "page.html", "page2.html", "report.html"),
    }
    assert {path.name for path in (home / "runs").iterdir()} == {"a", "b"}
    assert not (tmp_path / "~").exists()


@pytest.mark.skipif(os.name == "nt", reason="home directories as POSIX has them")
def test_a_home_directory_that_is_not_known_is_no_directory_of_that_name(refuse, tmp_path):
    for path in ("~nobody-here", "~nobody-here/run"):
        message = refuse("train", f"--out={path}")
        assert "--out: the home directory ~nobody-here is unknown; give the full path" in message
    assert list(tmp_path.iterdir()) == []


def test_resume_of_what_cannot_go_on(refuse, trained, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "is not a run" in refuse("train", "--resume", "empty")
    assert "has done its 20 steps" in refuse("train", "--resume", trained)
    assert "leave out --out" in refuse("train", "--resume", trained, "--out", "other")
    assert "cannot change on resumption" in refuse("train", "--resume", trained, "--dim", 64)


def test_a_disk_full_from_the_start_leaves_what_can_be_begun_again(
    refuse, call, text_file, monkeypatch
):
    words = ["train", "--data", text_file, "--steps", 2, "--out", "run", *TINY]

    def full(self, names, *contents):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(RunDirectory, "write_states", full)
        message = refuse(*words)
    assert "start again, nothing was saved yet" in message and "--resume" not in message
    message = refuse("train", "--resume", "run")
    again = "tinyattn train --config run/config.json --out run"
    assert again in message
    assert call(*again.split()[1:]).status == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="takes a device that is always full")
def test_a_full_disk_is_one_sentence_and_the_old_state_stays(
    refuse, call, text_file, monkeypatch, tmp_path
):
    words = ["train", "--data", text_file, "--steps", 8, "--out", "run", *TINY]
    call(*words, "--stop-after", 3)
    from tinyattn.train.storage import atomic

    plain = atomic._write_through

    def full(path, content):
        # The system itself says that there is no space left, for the optimiser's file only.
        plain("/dev/full" if path.name == "optimizer.safetensors" else path, content)

    with monkeypatch.context() as patch:
        patch.setattr(atomic, "_write_through", full)
        message = refuse("train", "--resume", "run")
        assert "cannot write to run: No space left on device" in message
        assert "resume with tinyattn train --resume run" in message
    assert RunDirectory.open("run").read_state("last")["step"] == 3
    assert sorted(path.name for path in (tmp_path / "run").iterdir() if "last" in path.name) == [
        "last"
    ]
    assert call("train", "--resume", "run").status == 0


def test_a_loss_that_is_not_finite_is_a_failed_run(call, text_file):
    words = ["train", "--data", text_file, "--steps", 30, "--optimizer", "adamw", *TINY]
    answer = call(*words, "--learning-rate", 1e30, "--warmup-steps", 0, "--clip", 0)
    assert answer.status == 1
    assert "is not finite" in answer.error and "learning rate 1e+30" in answer.error
    assert answer.error.count("\n") == 1


# ---- the picture


@pytest.mark.parametrize(
    "error",
    [OSError(28, "No space left on device"), ImportError("matplotlib"), RuntimeError("a\nb")],
)
def test_a_finished_run_is_one_without_its_picture_too(call, refuse, text_file, monkeypatch, error):
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


def test_a_run_of_before_digests_is_noticed_once(call, text_file):
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


# ---- signals


def read_until(process, word):
    for line in process.stdout:
        if word in line:
            return
    raise AssertionError(process.stderr.read())


LONG = ["--steps", "100000", "--evaluate-every", "10", "--sample-every", "0", "--out", "run", *TINY]


@pytest.mark.skipif(os.name == "nt", reason="signals as POSIX has them")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU"])
def test_an_interruption_saves_and_says_how_to_go_on(text_file, tmp_path, name, call):
    process = command("train", "--data", text_file, *LONG, cwd=tmp_path)
    read_until(process, b"validation ")
    process.send_signal(getattr(signal, name))
    output, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error == b""
    assert b"resume with:  tinyattn train --resume run" in output
    step = RunDirectory.open(tmp_path / "run").read_state("last")["step"]
    assert f"saved after step {step} of".encode() in output
    assert call("train", "--resume", "run", "--stop-after", 2).status == 0
    assert RunDirectory.open(tmp_path / "run").read_state("last")["step"] == step + 2


@pytest.mark.skipif(os.name == "nt", reason="signals as POSIX has them")
def test_signals_of_a_batch_system_that_follow_each_other_let_the_run_save():
    with _Interruption() as interruption:
        assert not interruption.asked
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGTERM, signal.SIGHUP):
            signal.raise_signal(number)
            assert interruption.asked
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def ignore_signals():
    """As a shell does for what it starts in the background, and nohup."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


@pytest.mark.skipif(os.name == "nt", reason="signals as POSIX has them")
def test_in_the_background_a_hangup_is_ignored_and_an_interruption_still_saves(text_file, tmp_path):
    process = command("train", "--data", text_file, *LONG, cwd=tmp_path, preexec_fn=ignore_signals)
    read_until(process, b"validation ")
    process.send_signal(signal.SIGHUP)
    for _ in range(5):
        read_until(process, b"validation ")
    process.send_signal(signal.SIGINT)
    output, error = process.communicate(timeout=60)
    assert process.returncode == 130 and error == b""
    assert b"resume with:  tinyattn train --resume run" in output


def test_a_second_interruption_says_how_to_go_on(text_file, call, monkeypatch):
    def step(trainer):
        if trainer.step == 2:
            raise KeyboardInterrupt
        return original(trainer)

    original = Trainer.train_step
    monkeypatch.setattr(Trainer, "train_step", step)
    answer = call("train", "--data", text_file, "--steps", 5, "--out", "run", *TINY)
    assert answer.status == 130
    assert answer.error == (
        "\ninterrupted; the last saved state is intact\nresume with:  tinyattn train --resume run\n"
    )
    monkeypatch.setattr(Trainer, "train_step", original)
    assert call("train", "--resume", "run").status == 0


def test_a_reader_that_leaves_stops_and_saves_the_run(text_file, tmp_path, call):
    process = command("train", "--data", text_file, *LONG, cwd=tmp_path)
    read_until(process, b"validation ")
    process.stdout.close()
    process.wait(60)
    assert process.returncode == 1
    error = process.stderr.read()
    step = RunDirectory.open(tmp_path / "run").read_state("last")["step"]
    assert f"saved after step {step}\n".encode() in error and error.count(b"\n") == 2
    assert call("train", "--resume", "run", "--stop-after", 2).status == 0


def test_a_reader_that_leaves_at_a_sample_stops_and_saves_the_run(text_file, tmp_path, call):
    words = ["--evaluate-every", 100_000, "--sample-every", 1, "--sample-length", 5]
    process = command(
        *("train", "--data", text_file, "--steps", 100_000, *words, "--out", "run", *TINY),
        cwd=tmp_path,
    )
    for _ in range(3):
        read_until(process, b"text sample after step")
    process.stdout.close()
    process.wait(60)
    error = process.stderr.read()
    assert process.returncode == 1
    step = RunDirectory.open(tmp_path / "run").read_state("last")["step"]
    assert step >= 3 and f"saved after step {step}\n".encode() in error
    assert call("train", "--resume", "run", "--stop-after", 2).status == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="takes a device that is always full")
def test_a_full_disk_of_the_log_is_told_as_such_from_the_first_line_on(text_file, tmp_path):
    words = ["train", "--data", str(text_file), "--steps", "2", "--out", "run", *TINY]
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "tinyattn", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=120,
        )
    assert result.returncode == 1
    assert result.stderr.decode() == (
        "tinyattn: cannot write the output (No space left on device); nothing was trained yet\n"
    )


@pytest.mark.parametrize("line", ["step 5/", "done in"])
def test_a_full_disk_of_the_log_costs_no_step(text_file, call, monkeypatch, line):
    note = PlainDisplay.note

    def fail(display, text):
        if text.startswith(line):
            raise OSError(28, "No space left on device")
        note(display, text)

    words = ["train", "--data", text_file, "--steps", 6, "--evaluate-every", 5, "--out", "run"]
    with monkeypatch.context() as patch:
        patch.setattr(PlainDisplay, "note", fail)
        patch.setattr("tinyattn.cli.train.discard_output", lambda: None)
        answer = call(*words, *TINY)
    said = "tinyattn: cannot write the output (No space left on device)"
    state = RunDirectory.open("run").read_state("last")
    if line == "done in":
        assert (answer.status, answer.error) == (0, f"{said}; the run run is finished\n")
        assert state["step"] == 6
    else:
        assert answer.status == 1
        assert answer.error == (
            f"{said}: saved after step 5\nresume with:  tinyattn train --resume run\n"
        )
        assert state["step"] == 5
        assert call("train", "--resume", "run").status == 0


def test_what_was_trained_since_the_last_evaluation_is_saved_too(text_file, call, monkeypatch):
    def step(trainer):
        if trainer.step == 2:
            raise BrokenPipeError
        return original(trainer)

    original = Trainer.train_step
    monkeypatch.setattr(Trainer, "train_step", step)
    monkeypatch.setattr("tinyattn.cli.train.discard_output", lambda: None)
    answer = call("train", "--data", text_file, "--steps", 5, "--out", "run", *TINY)
    assert answer.status == 1 and "saved after step 2\n" in answer.error
    assert RunDirectory.open("run").read_state("last")["step"] == 2


@pytest.mark.skipif(os.name == "nt", reason="locks as POSIX has them")
def test_a_run_is_trained_by_one_process_at_a_time(text_file, tmp_path, call):
    words = [*LONG[:-1], "2"]  # workers come last
    process = command("train", "--data", text_file, *words, cwd=tmp_path)
    read_until(process, b"validation ")
    answer = call("train", "--resume", "run")
    assert answer.status == 2
    assert "another process is training the run run: wait for it" in answer.error
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert call("train", "--resume", "run", "--stop-after", 2).status == 0


def test_workers_that_are_threads_say_why(text_file, call, monkeypatch):
    reason = "fork is safe on Linux only"
    monkeypatch.setattr("tinyattn.train.parallel.forks.unavailable", lambda: reason)
    words = [*TINY[:-1], "2"]  # workers come last
    answer = call("train", "--data", text_file, "--steps", 1, "--out", "run", *words)
    assert answer.status == 0 and f"2 workers (threads: {reason})" in answer.output


@pytest.mark.skipif(sys.platform != "linux", reason="worker processes: Linux only")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_to_the_process_and_its_workers_saves(text_file, tmp_path, number):
    words = [*LONG[:-1], "2"]  # workers come last
    process = command("train", "--data", text_file, *words, cwd=tmp_path)
    read_until(process, b"validation ")
    (worker,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for receiver in (int(worker), process.pid):
        os.kill(receiver, number)
    output, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, b"")
    step = RunDirectory.open(tmp_path / "run").read_state("last")["step"]
    assert f"saved after step {step} of".encode() in output
    assert not Path(f"/proc/{worker}").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="worker processes: Linux only")
def test_a_worker_that_is_killed_is_one_sentence_and_the_run_goes_on(text_file, tmp_path, call):
    words = [*LONG[:-1], "2"]  # workers come last
    process = command("train", "--data", text_file, *words, cwd=tmp_path)
    read_until(process, b"validation ")
    (worker,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(worker), signal.SIGKILL)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert error.startswith(b"tinyattn: worker process 1 was terminated by signal 9")
    assert (
        error.endswith(b"resume with:  tinyattn train --resume run --workers 1\n")
        and error.count(b"\n") == 2
    )
    assert call("train", "--resume", "run", "--stop-after", 2).status == 0


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="SIGKILL is POSIX")
def test_a_kill_at_any_moment_leaves_a_run_that_goes_on(text_file, tmp_path, call, random):
    process = command("train", "--data", text_file, *LONG, cwd=tmp_path)
    for _ in range(3):
        read_until(process, b"validation ")
        for _ in range(random.integers(3)):
            read_until(process, b"validation ")
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        run = RunDirectory.open(tmp_path / "run")
        state = run.read_state("last")
        settings = state["optimizer"]["adamw"]["steps"]
        assert set(settings.values()) == {state["step"]}
        run.read("best")
        process = command("train", "--resume", "run", cwd=tmp_path)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert call("sample", "run", "--length", 5).status == 0


def test_the_module_is_the_command(text_file, tmp_path):
    process = command("train", "--data", "nowhere.txt", cwd=tmp_path)
    output, error = process.communicate(timeout=60)
    assert (process.returncode, output) == (2, b"")
    assert error.decode().startswith("tinyattn: there is no file nowhere.txt")
    assert sys.executable not in error.decode()
