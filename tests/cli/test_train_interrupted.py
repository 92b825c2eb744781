"""``tinyattn train`` saves when it is interrupted by a signal, a closed terminal, a full disk or a killed worker."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tinyattn.cli.display import PlainDisplay
from tinyattn.cli.train import _Interruption
from tinyattn.train.storage.run_directory import RunDirectory
from tinyattn.train.trainer import Trainer

from .conftest import TINY, command


def read_until(process, word):
    for line in process.stdout:
        if word in line:
            return
    raise AssertionError(process.stderr.read())


LONG = ["--steps", "100000", "--evaluate-every", "10", "--sample-every", "0", "--out", "run", *TINY]


@pytest.mark.skipif(os.name == "nt", reason="signals as POSIX has them")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU"])
def test_a_signal_saves_the_run_and_prints_the_resume_command(text_file, tmp_path, name, call):
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
def test_successive_signals_of_a_batch_system_let_the_run_save():
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


def test_a_second_ctrl_c_stops_at_once_and_prints_the_resume_command(text_file, call, monkeypatch):
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


def test_a_closed_pipe_stops_and_saves_the_run(text_file, tmp_path, call):
    process = command("train", "--data", text_file, *LONG, cwd=tmp_path)
    read_until(process, b"validation ")
    process.stdout.close()
    process.wait(60)
    assert process.returncode == 1
    error = process.stderr.read()
    step = RunDirectory.open(tmp_path / "run").read_state("last")["step"]
    assert f"saved after step {step}\n".encode() in error and error.count(b"\n") == 2
    assert call("train", "--resume", "run", "--stop-after", 2).status == 0


def test_a_pipe_closed_at_a_sample_stops_and_saves_the_run(text_file, tmp_path, call):
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
def test_a_full_disk_of_the_log_is_reported_from_the_first_line_on(text_file, tmp_path):
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
def test_a_full_disk_of_the_log_loses_no_step(text_file, call, monkeypatch, line):
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


def test_steps_since_the_last_evaluation_are_saved(text_file, call, monkeypatch):
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


def test_the_first_line_says_why_workers_are_threads(text_file, call, monkeypatch):
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
def test_a_killed_worker_is_reported_in_one_line_and_the_run_can_be_resumed(
    text_file, tmp_path, call
):
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
def test_a_run_killed_at_any_moment_can_be_resumed(text_file, tmp_path, call, random):
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


def test_python_m_tinyattn_is_the_command(text_file, tmp_path):
    process = command("train", "--data", "nowhere.txt", cwd=tmp_path)
    output, error = process.communicate(timeout=60)
    assert (process.returncode, output) == (2, b"")
    assert error.decode().startswith("tinyattn: there is no file nowhere.txt")
    assert sys.executable not in error.decode()
