"""A file or a set of files is the old one or the new one, whenever the writer dies."""

import errno
import os
import signal
import subprocess
import sys
import time

import pytest

from tinyattn.train.storage import atomic
from tinyattn.train.storage.atomic import whole_directory, write_atomic, write_directory_atomic


class Disk:
    """Stands in for the system: fails at the n-th call of write or rename."""

    def __init__(self, monkeypatch, fail_at):
        self.calls = 0
        self.fail_at = fail_at
        for name in ("fsync", "rename", "replace"):
            monkeypatch.setattr(atomic.os, name, self._wrap(getattr(os, name)))

    def _wrap(self, function):
        def call(*arguments):
            self.calls += 1
            if self.calls == self.fail_at:
                raise OSError(errno.ENOSPC, "No space left on device")
            return function(*arguments)

        return call


def listing(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "config.json"
    write_atomic(path, "old")
    for fail_at in (1, 2):
        with monkeypatch.context() as patch:
            Disk(patch, fail_at)
            with pytest.raises(OSError, match="No space left"):
                write_atomic(path, "new")
        assert path.read_text() == "old"
        assert listing(tmp_path) == ["config.json"]


def test_a_directory_is_replaced_as_a_whole(tmp_path):
    write_directory_atomic(tmp_path / "last", {"a": "1", "b": b"1"})
    write_directory_atomic(tmp_path / "last", {"a": "2", "c": b"2"})
    assert listing(tmp_path) == ["last"]
    assert {p.name: p.read_text() for p in (tmp_path / "last").iterdir()} == {"a": "2", "c": "2"}


@pytest.mark.parametrize("fail_at", range(1, 8))
def test_a_failure_at_any_call_leaves_a_whole_state_and_the_next_write_works(
    tmp_path, monkeypatch, fail_at
):
    path = tmp_path / "last"
    write_directory_atomic(path, {"a": "1", "b": "1"})
    with monkeypatch.context() as patch:
        disk = Disk(patch, fail_at)
        try:
            write_directory_atomic(path, {"a": "2", "b": "2"})
        except OSError:
            assert disk.calls == fail_at
    whole = whole_directory(path)
    assert {p.name: p.read_text() for p in whole.iterdir()} in (
        {"a": "1", "b": "1"},
        {"a": "2", "b": "2"},
    )
    write_directory_atomic(path, {"a": "3", "b": "3"})
    assert listing(tmp_path) == ["last"]
    assert (path / "b").read_text() == "3"


WRITER = """
import itertools, sys
from tinyattn.train.storage.atomic import write_directory_atomic
for number in itertools.count():
    text = str(number) * 2000
    write_directory_atomic(sys.argv[1], {"a": text, "b": text, "c": text})
    print(number, flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is POSIX")
def test_sigkill_at_any_moment_leaves_files_that_belong_together(tmp_path, random):
    path = tmp_path / "last"
    for _ in range(6):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        writer.stdout.readline()
        time.sleep(random.uniform(0.0, 0.02))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        whole = whole_directory(path)
        contents = {p.name: p.read_text() for p in whole.iterdir()}
        assert contents.keys() == {"a", "b", "c"}
        assert len(set(contents.values())) == 1
