"""Atomic replacement of files and directories: a killed writer leaves the old content or the new.

A file is written under a temporary name in the same directory, flushed to disk (fsync), and renamed over the old one.
A directory cannot be renamed over another. It is replaced in two renames: ``.NAME.new`` is written completely, NAME is
renamed to ``.NAME.old``, and ``.NAME.new`` to NAME. A reader that finds no NAME between the two reads ``.NAME.old``.

Symbolic links are followed: their target is replaced.
"""

import contextlib
import errno
import os
import re
import shutil
import stat
import time
from pathlib import Path

from .paths import check_path, readable_file

# Errors of network and user-space file systems that do not support fsync.
_CANNOT_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
# Delays between attempts to rename [s]: on Windows a virus scanner or an indexer may keep a file open briefly.
_RETRY_DELAYS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3)


def write_atomic(path, content):
    """Write ``content`` (bytes, text, or an iterable of buffers) to ``path`` atomically.

    The mode of an existing file is kept. A device or pipe is written to, not replaced. The buffers of an iterable are
    requested one at a time, so that a large file need not be in memory at once.

    Raises:
        InputError: if the path is invalid on any file system.
        OSError: from the operating system (no space, no permission), with a file name; the old file is unchanged.
    """
    if isinstance(content, str):
        content = content.encode("utf-8", "backslashreplace")  # lone surrogates have no UTF-8
    old = _status(check_path(path))
    if old is not None and not stat.S_ISREG(old.st_mode):
        with open(path, "wb") as file:
            file.writelines(_buffers(content))
        return
    path = Path(os.path.realpath(path))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        _write_through(temporary, content)
        if old is not None:
            os.chmod(temporary, stat.S_IMODE(old.st_mode))
        _retry(os.replace, temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_directory(path.parent)


def write_directory_atomic(path, contents):
    """Replace the directory ``path`` by one with the files ``contents``, a dict of name to bytes or text.

    The parent directory must exist: it is not created again if it was deleted.

    Raises:
        OSError: from the operating system, with a file name; the old directory is unchanged.
    """
    path = Path(os.path.realpath(path))
    new, old = _sibling(path, "new"), _sibling(path, "old")
    recover_directory(path)
    _remove(new)
    try:
        new.mkdir()
        for name, content in contents.items():
            _write_through(new / name, content.encode() if isinstance(content, str) else content)
        _sync_directory(new)
    except BaseException:
        _remove(new)
        raise
    _remove(old)
    if path.exists():
        _retry(os.rename, path, old)
    _retry(os.rename, new, path)
    _sync_directory(path.parent)
    _remove(old)


def find_directory(path):
    """Where the directory ``path`` is now: at ``path``, or at ``.NAME.old`` during a replacement; None if nowhere."""
    path = Path(os.path.realpath(path))
    return next((place for place in (path, _sibling(path, "old")) if place.is_dir()), None)


def read_directory_atomic(path, names):
    """Read the files ``names`` of a directory, a dict of name to bytes, all from the same write.

    Another process may replace the directory at the same time.

    Raises:
        FileNotFoundError: if a file is missing.
    """
    for _ in range(100):
        directory = find_directory(path) or Path(path)
        before, missing = _identity(directory), None
        try:
            contents = {name: readable_file(directory / name).read_bytes() for name in names}
        except FileNotFoundError as error:
            missing = error
        if _identity(directory) == before:
            break
    if missing is not None:
        raise missing
    return contents


def _identity(directory):
    status = _status(directory)
    return status and (status.st_dev, status.st_ino, status.st_ctime_ns)


def recover_directory(path):
    """Rename ``.NAME.old`` back to ``path`` if a writer was killed between the two renames."""
    place, path = find_directory(path), Path(os.path.realpath(path))
    if place is not None and place != path:
        _retry(os.rename, place, path)


def remove_leftovers(folder, files=(), directories=()):
    """Remove temporary files of killed writers from ``folder``; no other process may write there.

    Args:
        folder: a directory.
        files: regular expressions for the names of files written with ``write_atomic``.
        directories: names of directories written with ``write_directory_atomic``; they are recovered.
    """
    temporary = re.compile(rf"\.({'|'.join(files)})\.\d+\.new") if files else None
    for path in folder.iterdir() if temporary else ():
        if temporary.fullmatch(path.name):
            path.unlink(missing_ok=True)
    for name in directories:
        recover_directory(folder / name)
        path = Path(os.path.realpath(folder / name))
        _remove(_sibling(path, "new"))
        _remove(_sibling(path, "old"))


def _status(path):
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _sibling(path, suffix):
    return path.with_name(f".{path.name}.{suffix}")


def _write_through(path, content):
    with _naming(path), open(path, "wb") as file:
        file.writelines(_buffers(content))
        file.flush()
        sync(file)


def _buffers(content):
    return (content,) if isinstance(content, bytes | bytearray | memoryview) else content


def sync(file):
    """Flush an open file (an object or a descriptor) to disk, if its file system supports that."""
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise


def _sync_directory(path):
    # A rename is on disk only after its directory is; Windows cannot open directories and does not need this.
    if os.name == "nt":
        return
    with _naming(path):
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except PermissionError:  # the directory may be written to but not listed
            return
        try:
            sync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _naming(path):
    """Set the file name of an OSError that has none, such as those of write and fsync."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def _retry(move, source, target):
    for delay in _RETRY_DELAYS:
        try:
            return move(source, target)
        except PermissionError:
            time.sleep(delay)
    return move(source, target)


def _remove(directory):
    if directory.is_symlink():
        directory.unlink()
    elif directory.exists():
        shutil.rmtree(directory)
