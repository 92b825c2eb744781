"""Several MPI processes train like one process on the same batches."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tinyattn.train.config import make_config
from tinyattn.train.parallel.mpi import ProcessGroup, launched_processes, rank_key
from tinyattn.train.session import begin
from tinyattn.train.storage.metrics import read_metrics
from tinyattn.train.storage.run_directory import RunDirectory

ROOT = Path(__file__).resolve().parents[3]


class Rank:
    """The part of a communicator that says who one is."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size

    def Get_rank(self):
        return self.rank

    def Get_size(self):
        return self.size

    def bcast(self, value):
        return [7] if value is None else list(value)  # a copy, also in the first process


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_the_shards_of_all_ranks_cover_each_row_once(size):
    rows = np.concatenate(
        [np.arange(12)[ProcessGroup(Rank(r, size)).rows(12)] for r in range(size)]
    )
    assert rows.tolist() == list(range(12))


def test_rank_0_keeps_its_object_and_the_others_get_copies():
    made = [7]  # such as a run whose lock it holds
    assert ProcessGroup(Rank(0, 2)).broadcast(lambda: made) is made
    assert ProcessGroup(Rank(1, 2)).broadcast(lambda: made) == [7]


def test_each_rank_has_its_own_random_draws():
    assert rank_key(7, 0) == 7
    assert len({rank_key(7, rank) for rank in range(20)}) == 20


def test_without_a_launcher_there_is_one_process(monkeypatch):
    for name in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS"):
        monkeypatch.delenv(name, raising=False)
    alone = launched_processes()
    assert (alone.size, alone.rank, alone.communicator) == (1, 0, None)
    assert alone.broadcast(lambda: 3) == 3
    assert alone.any(True) and not alone.any(False)


def mpiexec(*words, cwd, program=("-m", "tinyattn")):
    launcher = shutil.which(
        "mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    )
    if launcher is None:
        pytest.skip("no mpiexec: pip install mpi4py mpich")
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        [launcher, "-n", "2", sys.executable, *program, *map(str, words)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_two_processes_follow_the_loss_curve_of_one(tmp_path, tiny, display):
    tiny.update(dropout=0.0, dtype="float64", steps=8, evaluate_every=4)
    begin(make_config(tiny), tmp_path / "one").train(display)
    words = [
        word for name, value in tiny.items() for word in (f"--{name.replace('_', '-')}", value)
    ]
    result = mpiexec("train", *words, "--out", tmp_path / "two", "--stop-after", 5, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("in each of 2 processes") == 1
    result = mpiexec("train", "--resume", tmp_path / "two", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    losses = {}
    for name in ("one", "two"):
        lines = read_metrics(tmp_path / name / "metrics.jsonl")
        losses[name] = [line["loss"] for line in lines if "loss" in line]
        losses[name] += [line["val_loss"] for line in lines if "val_loss" in line]
    assert losses["one"] == pytest.approx(losses["two"], abs=2e-6)
    first = RunDirectory.open(tmp_path / "one").read("last").model
    second = RunDirectory.open(tmp_path / "two").read("last").model
    assert all(np.allclose(first[name], second[name], rtol=1e-9, atol=1e-11) for name in first)


def test_a_mistake_terminates_all_processes_with_one_line(tmp_path):
    result = mpiexec("train", "--data", "nowhere.txt", cwd=tmp_path)
    assert result.returncode != 0
    assert result.stderr.count("there is no file nowhere.txt") == 1
    assert "Traceback" not in result.stderr


def test_an_error_that_only_the_second_process_has_is_printed(tmp_path):
    program = """if True:
        import sys
        from tinyattn.cli import main, train
        from tinyattn.data import InputError

        def run(options, source, processes):
            if processes.rank == 1:
                raise InputError("no memory here")
            processes.any(True)  # waits for the other process

        train._run = run
        sys.exit(main(sys.argv[1:]))
    """
    result = mpiexec("train", cwd=tmp_path, program=("-c", program))
    assert result.returncode == 2
    assert result.stderr.count("tinyattn, process 1: no memory here") == 1
