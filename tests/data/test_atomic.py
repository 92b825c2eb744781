"""Files and directories are replaced atomically: a killed writer leaves the old content or the new."""

import errno
import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from tinyattn.data import InputError, atomic
from tinyattn.data.atomic import find_directory, write_atomic, write_directory_atomic


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


def test_content_in_pieces_is_written_one_after_the_other(tmp_path):
    write_atomic(tmp_path / "file", (piece for piece in (b"ab", memoryview(b"cd"))))
    assert (tmp_path / "file").read_bytes() == b"abcd"


def test_a_failing_piece_leaves_the_old_file(tmp_path):
    def pieces():
        yield b"new"
        raise MemoryError

    write_atomic(tmp_path / "file", "old")
    with pytest.raises(MemoryError):
        write_atomic(tmp_path / "file", pieces())
    assert (tmp_path / "file").read_text() == "old"
    assert listing(tmp_path) == ["file"]


def test_a_directory_is_replaced_as_a_whole(tmp_path):
    write_directory_atomic(tmp_path / "last", {"a": "1", "b": b"1"})
    write_directory_atomic(tmp_path / "last", {"a": "2", "c": b"2"})
    assert listing(tmp_path) == ["last"]
    assert {p.name: p.read_text() for p in (tmp_path / "last").iterdir()} == {"a": "2", "c": "2"}


@pytest.mark.parametrize("fail_at", range(1, 8))
def test_a_failure_of_any_system_call_keeps_a_complete_state(tmp_path, monkeypatch, fail_at):
    path = tmp_path / "last"
    write_directory_atomic(path, {"a": "1", "b": "1"})
    with monkeypatch.context() as patch:
        disk = Disk(patch, fail_at)
        try:
            write_directory_atomic(path, {"a": "2", "b": "2"})
        except OSError:
            assert disk.calls == fail_at
    whole = find_directory(path)
    assert {p.name: p.read_text() for p in whole.iterdir()} in (
        {"a": "1", "b": "1"},
        {"a": "2", "b": "2"},
    )
    write_directory_atomic(path, {"a": "3", "b": "3"})
    assert listing(tmp_path) == ["last"]
    assert (path / "b").read_text() == "3"


WRITER = """
import itertools, sys
from tinyattn.data.atomic import write_directory_atomic
for number in itertools.count():
    text = str(number) * 2000
    write_directory_atomic(sys.argv[1], {"a": text, "b": text, "c": text})
    print(number, flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is POSIX")
def test_sigkill_at_any_moment_leaves_a_consistent_directory(tmp_path, random):
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
        whole = find_directory(path)
        contents = {p.name: p.read_text() for p in whole.iterdir()}
        assert contents.keys() == {"a", "b", "c"}
        assert len(set(contents.values())) == 1


def failing(error, times, function):
    """``function`` that raises ``error`` at its first calls."""
    calls = []

    def call(*arguments):
        calls.append(arguments)
        if len(calls) <= times:
            raise error
        return function(*arguments)

    return call


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_without_fsync_is_supported(tmp_path, monkeypatch, number):
    error = OSError(number, os.strerror(number))
    monkeypatch.setattr(atomic.os, "fsync", failing(error, 100, os.fsync))
    write_atomic(tmp_path / "file", "content")
    write_directory_atomic(tmp_path / "last", {"a": "1"})
    assert listing(tmp_path) == ["file", "last"]


def test_an_os_error_has_a_file_name(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic.os, "fsync", failing(OSError(errno.EIO, "I/O error"), 1, os.fsync))
    with pytest.raises(OSError) as caught:
        write_atomic(tmp_path / "file", "content")
    assert str(tmp_path) in caught.value.filename


@pytest.mark.parametrize("name", ["replace", "rename"])
def test_renaming_a_file_in_use_is_retried(tmp_path, monkeypatch, name):
    pauses = []
    monkeypatch.setattr(atomic.time, "sleep", pauses.append)
    write_directory_atomic(tmp_path / "last", {"a": "1"})
    error = PermissionError(errno.EACCES, "Access is denied")
    monkeypatch.setattr(atomic.os, name, failing(error, 3, getattr(os, name)))
    write_atomic(tmp_path / "file", "content")
    write_directory_atomic(tmp_path / "last", {"a": "2"})
    assert (tmp_path / "last" / "a").read_text() == "2"
    assert len(pauses) == 3 and sum(pauses) < 1


def test_renaming_a_file_permanently_in_use_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic.time, "sleep", lambda pause: None)
    error = PermissionError(errno.EACCES, "Access is denied")
    monkeypatch.setattr(atomic.os, "replace", failing(error, 1000, os.replace))
    with pytest.raises(PermissionError):
        write_atomic(tmp_path / "file", "content")
    assert listing(tmp_path) == []


@pytest.mark.skipif(os.name == "nt", reason="links and modes as POSIX has them")
def test_the_target_of_a_symbolic_link_is_replaced_and_keeps_its_mode(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "page.html", tmp_path / "page.html"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    write_atomic(link, "new")
    assert link.is_symlink() and target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o600
    assert listing(target.parent) == ["page.html"]
    target.unlink()
    write_atomic(link, "newer")  # a link to a file that does not exist yet
    assert link.is_symlink() and target.read_text() == "newer"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="takes a named pipe")
def test_a_device_or_pipe_is_written_to_not_replaced(tmp_path):
    # A pipe of its own: a device such as /dev/null would be lost to the machine if this failed.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    try:
        write_atomic(pipe, "content")
        assert stat.S_ISFIFO(pipe.stat().st_mode)
        assert reader.communicate(timeout=60)[0] == b"content"
    finally:
        reader.kill()
        reader.stdout.close()
        reader.wait()
    assert listing(tmp_path) == ["pipe"]


@pytest.mark.skipif(os.name == "nt", reason="links as POSIX has them")
def test_the_target_of_a_symbolic_link_to_a_directory_is_replaced(tmp_path):
    (tmp_path / "disk").mkdir()
    link = tmp_path / "last"
    link.symlink_to(tmp_path / "disk" / "state")
    write_directory_atomic(link, {"a": "1"})
    write_directory_atomic(link, {"a": "2"})
    assert link.is_symlink() and (link / "a").read_text() == "2"
    assert listing(tmp_path / "disk") == ["state"]


def test_a_directory_that_was_deleted_is_not_created_again(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_directory_atomic(tmp_path / "run" / "last", {"a": "1"})
    with pytest.raises(FileNotFoundError):
        write_atomic(tmp_path / "run" / "file", "1")
    assert listing(tmp_path) == []


def test_only_temporary_files_of_killed_writers_are_removed(tmp_path):
    write_directory_atomic(tmp_path / "best", {"a": "1"})
    write_directory_atomic(tmp_path / "last", {"a": "1"})
    os.rename(tmp_path / "last", tmp_path / ".last.old")  # killed between the two moves
    (tmp_path / ".last.new").mkdir()
    (tmp_path / ".best.old").mkdir()
    for name in (".config.json.17.new", ".page.html.17.new", ".config.json", "config.json"):
        (tmp_path / name).write_text("")
    atomic.remove_leftovers(tmp_path, [r"config\.json"], ["best", "last"])
    assert listing(tmp_path) == [".config.json", ".page.html.17.new", "best", "config.json", "last"]
    assert (tmp_path / "last" / "a").read_text() == "1"


@pytest.mark.parametrize("path", ["a\0b", "\ud800"])
def test_an_invalid_path_is_an_error(path):
    with pytest.raises(InputError, match="the path contains a"):
        write_atomic(path, "content")
