"""``tinyattn train`` reports mistakes of the user in one line, with exit status 2, and leaves runs unchanged."""

import io
import json
import os
import sys

import pytest

from tinyattn.train.storage.run_directory import RunDirectory

from .conftest import TINY


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


def test_too_little_memory_is_reported_in_one_line(refuse, monkeypatch):
    def begin(*arguments, **options):
        raise MemoryError("Unable to allocate 7 TiB")

    monkeypatch.setattr("tinyattn.cli.train.begin", begin)
    assert "not enough memory (Unable to allocate 7 TiB): use a smaller batch" in refuse("train")


def test_an_invalid_config_file(refuse, tmp_path):
    for content, message in [
        (b"{", "is not JSON"),
        (b"[]", "must contain a JSON object"),
        (b'{"stepz": 3}', "unknown option 'stepz'"),
        (b'{"run": {"out": 3}}', "--out must be text, given 3"),
        (b"\xff", "is not UTF-8"),
    ]:
        (tmp_path / "options.json").write_bytes(content)
        assert message in refuse("train", "--config", "options.json")


def test_a_directory_with_a_run_is_not_overwritten(refuse, trained, text_file):
    before = {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}
    message = refuse("train", "--data", text_file, "--out", trained)
    assert "already contains a run" in message and f"--resume {trained}" in message
    assert {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()} == before


def test_an_output_path_that_is_a_file(refuse, text_file, tmp_path):
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


def test_several_texts_are_concatenated(call, text_file, tmp_path):
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


def test_empty_standard_input(refuse, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(" \n"))
    assert "standard input is nothing but white space" in refuse("train", "--data", "-")


def test_the_tilde_is_expanded_in_every_path_option(call, refuse, text_file, tmp_path, monkeypatch):
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
def test_an_unknown_home_directory_is_an_error(refuse, tmp_path):
    for path in ("~nobody-here", "~nobody-here/run"):
        message = refuse("train", f"--out={path}")
        assert "--out: the home directory ~nobody-here is unknown; give the full path" in message
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_cannot_be_resumed(refuse, trained, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "is not a run" in refuse("train", "--resume", "empty")
    assert "has done its 20 steps" in refuse("train", "--resume", trained)
    assert "leave out --out" in refuse("train", "--resume", trained, "--out", "other")
    assert "cannot change on resumption" in refuse("train", "--resume", trained, "--dim", 64)


def test_a_run_on_a_full_disk_can_be_started_again(refuse, call, text_file, monkeypatch):
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
def test_a_full_disk_is_reported_in_one_line_and_keeps_the_old_state(
    refuse, call, text_file, monkeypatch, tmp_path
):
    words = ["train", "--data", text_file, "--steps", 8, "--out", "run", *TINY]
    call(*words, "--stop-after", 3)
    from tinyattn.data import atomic

    plain = atomic._write_through

    def full(path, content):
        # The system itself says that there is no space left, for the optimizer's file only.
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
