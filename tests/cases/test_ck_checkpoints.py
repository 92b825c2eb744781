"""Hard cases CK of files: after a crash a checkpoint is the complete old one or the complete new one."""

import errno
import os
import subprocess
import sys

import numpy as np
import pytest

from tinyattn.data import CharVocabulary, atomic
from tinyattn.data.atomic import write_atomic
from tinyattn.train import begin, load_run, make_config, resume
from tinyattn.train.storage.errors import DamagedFileError
from tinyattn.train.storage.run_directory import RunDirectory

TEXT = "the quick brown fox jumps over the lazy dog.\n" * 20
TINY = {"layers": 1, "heads": 1, "dim": 8, "block_size": 8, "batch_size": 2, "sample_every": 0}


@pytest.fixture
def run(tmp_path):
    return RunDirectory.create(tmp_path / "run", make_config(TINY), CharVocabulary("abc"))


def save(run, step):
    run.write_states(["last"], {"w": np.full((3, 4), step)}, {"m": np.zeros(3)}, {"step": step})


def test_CK_01_a_full_disk_half_way_leaves_the_old_checkpoint(run, monkeypatch):
    save(run, 1)

    def half(path, content):
        with open(path, "wb") as file:
            content = bytes(content)
            file.write(content[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(atomic, "_write_through", half)
    with pytest.raises(OSError, match="No space left"):
        save(run, 2)
    assert run.read_state("last")["step"] == 1
    assert run.read("last").model["w"].tolist() == np.ones((3, 4)).tolist()
    assert sorted(path.name for path in run.path.iterdir()) == ["config.json", "last", "vocab.json"]


def test_CK_02_the_temporary_file_becomes_the_one_that_was_named(tmp_path):
    write_atomic(tmp_path / "ck.npz", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["ck.npz"]


def test_CK_04_a_damaged_file_is_one_error_and_nothing_is_loaded(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    config = make_config(TINY, data=str(tmp_path / "text.txt"), steps=1)
    begin(config, tmp_path / "run").train()
    path = tmp_path / "run" / "best" / "model.safetensors"
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for content in (b"", whole[:10], whole[: len(whole) // 2], whole[:-1], bytes(flipped)):
        path.write_bytes(content)
        with pytest.raises(DamagedFileError, match="is damaged"):
            load_run(tmp_path / "run")
    path.write_bytes(whole)
    load_run(tmp_path / "run")


def test_CK_07_resuming_twice_equals_going_straight_through(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    options = {**TINY, "data": str(tmp_path / "text.txt"), "steps": 15, "dropout": 0.2}
    begin(make_config(options), tmp_path / "straight").train()
    begin(make_config(options, stop_after=5), tmp_path / "parts").train()
    resume(tmp_path / "parts", {"stop_after": 5}).train()
    resume(tmp_path / "parts", {"stop_after": 5}).train()
    straight, parts = (RunDirectory(tmp_path / name) for name in ("straight", "parts"))
    for name, array in straight.read("last").model.items():
        assert np.array_equal(array, parts.read("last").model[name]), name
    first, second = straight.read_state("last"), parts.read_state("last")
    assert first["random"] == second["random"]
    assert first["step"] == second["step"] == 15


def test_CK_11_the_vocabulary_is_that_of_the_run_in_every_process(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    words = [f"--{name.replace('_', '-')}={value}" for name, value in TINY.items()]
    texts = []
    for seed, command in [
        ("1", ["train", "--data", str(tmp_path / "text.txt"), "--steps=2", "--out=run", *words]),
        ("2", ["sample", "run", "--seed=1", "--length=30"]),
        ("3", ["sample", "run", "--seed=1", "--length=30"]),
    ]:
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        result = subprocess.run(
            [sys.executable, "-m", "tinyattn", *command],
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root},
            capture_output=True,
            text=True,
            check=True,
        )
        texts.append(result.stdout)
    assert texts[1] == texts[2]
    assert RunDirectory(tmp_path / "run").vocabulary().characters == tuple(sorted(set(TEXT)))


@pytest.mark.parametrize("value", [object(), None, lambda: 0])
def test_CK_14_what_is_no_array_is_refused_before_the_old_file_is_touched(run, value):
    save(run, 1)
    with pytest.raises(TypeError, match="cannot save 'w'"):
        run.write_states(["last"], {"w": value}, {}, {"step": 2})
    assert run.read_state("last")["step"] == 1
