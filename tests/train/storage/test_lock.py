"""The file lock: one process trains a run at a time."""

import multiprocessing
import os
import shutil
import traceback

import pytest

from tinyattn.data import CharVocabulary, InputError
from tinyattn.train import begin, load_run, make_config, resume
from tinyattn.train.storage import lock
from tinyattn.train.storage.metrics import read_metrics
from tinyattn.train.storage.run_directory import RunDirectory

pytestmark = pytest.mark.skipif(os.name == "nt", reason="locks as POSIX has them")
PROCESSES = 4
TIMEOUT = 120  # s, of a machine that is busy with something else


def contents(path):
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


class Msvcrt:
    """Locks as those of Windows: of one byte of a file, with its errors."""

    LK_NBLCK = 2

    def __init__(self):
        self.flock = lock.fcntl.flock
        self.exclusive = lock.fcntl.LOCK_EX | lock.fcntl.LOCK_NB

    def locking(self, descriptor, mode, size):
        assert (mode, size) == (self.LK_NBLCK, 1)
        try:
            self.flock(descriptor, self.exclusive)
        except BlockingIOError as error:
            raise PermissionError(13, "Permission denied") from error


# ---- one after the other


def test_where_directories_cannot_be_locked_a_file_in_them_is(tmp_path, tiny, display, monkeypatch):
    monkeypatch.setattr(lock, "msvcrt", Msvcrt(), raising=False)
    monkeypatch.setattr(lock, "fcntl", None)
    trainer = begin(make_config(tiny), tmp_path / "run")
    with pytest.raises(InputError, match="another process is training the run"):
        resume(tmp_path / "run", {"steps": 20})
    trainer.train(display)
    resume(tmp_path / "run", {"steps": 16}).train(display)
    assert load_run(tmp_path / "run").step == 16


def test_a_locked_run_is_neither_started_nor_resumed_nor_changed(tmp_path, tiny, display):
    trainer = begin(make_config(tiny), tmp_path / "run")
    before = contents(tmp_path / "run")
    for function in (
        lambda: begin(make_config(tiny, seed=7), tmp_path / "run"),
        lambda: resume(tmp_path / "run", {"steps": 777_777}),
    ):
        with pytest.raises(InputError, match="another process is training the run"):
            function()
    assert contents(tmp_path / "run") == before
    trainer.train(display)
    resume(tmp_path / "run", {"steps": 16}).train(display)


def test_a_rejected_resumption_writes_nothing(tmp_path, tiny, display):
    begin(make_config(tiny, stop_after=2), tmp_path / "run").train(display)
    before = contents(tmp_path / "run")
    for options in ({"dim": 32}, {"data": str(tmp_path / "none.txt")}, {"steps": 2}):
        with pytest.raises(InputError):
            resume(tmp_path / "run", options)
    assert contents(tmp_path / "run") == before
    resume(tmp_path / "run").train(display)


def test_a_deleted_trainer_unlocks_its_run(tmp_path, tiny):
    trainer = begin(make_config(tiny), tmp_path / "run")
    with pytest.raises(InputError, match="another process"):
        RunDirectory(tmp_path / "run").lock()
    del trainer
    RunDirectory(tmp_path / "run").lock()


def test_a_trainer_trains_once(tmp_path, tiny, display):
    trainer = begin(make_config(tiny, stop_after=2), tmp_path / "run")
    trainer.train(display)
    with pytest.raises(RuntimeError, match="resume the run"):
        trainer.train(display)


def _say_and_wait(pipe):
    pipe.send("here")
    pipe.recv()


def test_a_forked_process_does_not_hold_the_lock(tmp_path):
    run = RunDirectory.create(tmp_path / "run", make_config(), CharVocabulary("ab"))
    there, here = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=_say_and_wait, args=(there,), daemon=True
    )
    process.start()
    try:
        assert here.poll(TIMEOUT) and here.recv() == "here"
        run.unlock()
        RunDirectory(run.path).lock()
    finally:
        here.send(None)
        process.join(TIMEOUT)


def test_temporary_files_of_killed_processes_are_removed_when_the_run_is_locked(
    tmp_path, tiny, display
):
    begin(make_config(tiny, snapshots=2, stop_after=2), tmp_path / "run").train(display)
    expected = set(contents(tmp_path / "run"))
    left = [".config.json.17.new", ".loss.png.17.new", "snapshots/.step-000015.safetensors.17.new"]
    for name in left:
        (tmp_path / "run" / name).write_text("half")
    shutil.copytree(tmp_path / "run" / "last", tmp_path / "run" / ".last.old")
    (tmp_path / "run" / ".best.new").mkdir()
    resume(tmp_path / "run").run.unlock()
    assert set(contents(tmp_path / "run")) == expected
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"config.json", "vocab.json", "metrics.jsonl", "last", "snapshots"}


# ---- a directory that goes away


def test_a_run_deleted_during_training_stops_and_is_not_created_again(tmp_path, tiny, display):
    trainer = begin(make_config(tiny), tmp_path / "run")

    def delete():
        if trainer.step == 3:
            shutil.rmtree(tmp_path / "run", ignore_errors=True)
        return False

    with pytest.raises(InputError, match="was deleted or moved during training"):
        trainer.train(display, delete)
    assert not (tmp_path / "run").exists()


def test_a_run_emptied_during_training_is_complete_after_the_next_save(tmp_path, tiny, display):
    for name in ("begun", "resumed"):
        trainer = begin(
            make_config(tiny, stop_after=2 if name == "resumed" else None), tmp_path / name
        )
        if name == "resumed":
            trainer.train(display)
            trainer = resume(tmp_path / name)

        def empty(trainer=trainer):
            if trainer.step == 3:
                for path in trainer.run.path.iterdir():
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            return False

        assert trainer.train(display, empty)
        assert load_run(tmp_path / name).step == 15
        assert RunDirectory.open(tmp_path / name).config().run.steps == 15


@pytest.mark.skipif(
    not os.path.isdir("/proc/self/fd"), reason="no /proc/self/fd to find a moved directory"
)
def test_a_run_moved_during_training_is_saved_at_its_new_path(tmp_path, tiny, display):
    trainer = begin(make_config(tiny), tmp_path / "run")

    def move():
        if trainer.step == 3:
            (tmp_path / "run").rename(tmp_path / "moved")
            (tmp_path / "run").mkdir()  # another one, which is left alone
        return False

    assert trainer.train(display, move)
    assert trainer.run.path == tmp_path / "moved"
    assert list((tmp_path / "run").iterdir()) == []
    assert load_run(tmp_path / "moved").step == 15
    assert len(read_metrics(tmp_path / "moved" / "metrics.jsonl")) == 15 + 3


def test_a_state_replaced_during_reading_is_read_again(tmp_path, tiny, display):
    begin(make_config(tiny, stop_after=5), tmp_path / "run").train(display)
    run = RunDirectory.open(tmp_path / "run")
    read, reads = type(run.path).read_bytes, []

    def exchange(path):
        content = read(path)
        reads.append(path.name)
        if len(reads) == 1:
            resume(tmp_path / "run", {"stop_after": 5}).train(display)
        return content

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(run.path), "read_bytes", exchange)
        saved = run.read("last")
    assert saved.values["step"] == 10
    assert set(saved.optimizer) and reads.count("state.json") > 1


# ---- all at once


def at_once(function, *arguments, count=PROCESSES):
    """What ``function(*arguments)`` gave in each of several processes that call it at the same moment."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(count)
    pipes, processes = [], []
    for number in range(count):
        here, there = context.Pipe(duplex=False)
        process = context.Process(
            target=_answer, args=(there, barrier, function, number, arguments), daemon=True
        )
        process.start()
        there.close()
        pipes.append(here)
        processes.append(process)
    answers = []
    for pipe, process in zip(pipes, processes):
        assert pipe.poll(TIMEOUT), "a process hangs"
        answers.append(pipe.recv())
        process.join(TIMEOUT)
    return answers


def _answer(pipe, barrier, function, number, arguments):
    barrier.wait(TIMEOUT)
    try:
        answer = function(number, *arguments)
    except InputError as error:
        answer = error
    except BaseException:
        answer = traceback.format_exc()
    pipe.send(answer)


def _begin(number, options, path):
    trainer = begin(make_config(options, seed=number), path)
    trainer.train()
    return trainer.run.path


def _resume(number, path):
    trainer = resume(path, {"stop_after": 1})
    trainer.train()
    return trainer.step


def test_of_several_processes_one_starts_a_run_in_a_directory(tmp_path, tiny):
    for attempt in range(3):
        path = tmp_path / str(attempt)
        answers = at_once(_begin, {**tiny, "steps": 2}, path)
        (winner,) = [number for number, answer in enumerate(answers) if answer == path]
        others = [answer for answer in answers if answer != path]
        assert all(isinstance(answer, InputError) for answer in others), answers
        run = RunDirectory.open(path)
        assert run.config().run.seed == winner
        assert load_run(path).step == 2
        assert [line["step"] for line in run.read_metrics() if "loss" in line] == [1, 2]


def test_processes_without_an_output_option_get_separate_directories(tmp_path, tiny, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answers = at_once(_begin, {**tiny, "steps": 2}, None, count=8)
    assert len(set(answers)) == 8 and not [a for a in answers if isinstance(a, str | InputError)]
    for number, path in enumerate(answers):
        assert RunDirectory.open(path).config().run.seed == number
        assert load_run(path).step == 2


def test_of_several_processes_one_resumes_a_run(tmp_path, tiny, display):
    path = tmp_path / "run"
    begin(make_config(tiny, stop_after=1), path).train(display)
    step = 1
    for _ in range(3):
        answers = at_once(_resume, path)
        done = sorted(answer for answer in answers if isinstance(answer, int))
        others = [answer for answer in answers if not isinstance(answer, int)]
        assert all(isinstance(answer, InputError) for answer in others), answers
        assert done == list(range(step + 1, step + 1 + len(done))) and done
        step = done[-1]
    run = RunDirectory.open(path)
    assert run.read_state("last")["step"] == step
    losses = [line for line in run.read_metrics() if "loss" in line]
    assert [line["step"] for line in losses] == list(range(1, step + 1))
    straight = tmp_path / "straight"
    begin(make_config(tiny, stop_after=step), straight).train(display)
    expected = RunDirectory.open(straight).read("last")
    for name, array in run.read("last").model.items():
        assert (array == expected.model[name]).all(), name
