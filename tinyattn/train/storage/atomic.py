"""Files that are either the old one or the new one, whenever the writer dies.

A single file is written beside its place, synced to the disk, and moved over the old one in one step. A directory of
files that belong together cannot be moved over another, so it is exchanged: ``.NAME.new`` is written in full, NAME is
moved to ``.NAME.old``, ``.NAME.new`` becomes NAME. A reader that looks between the two moves finds no NAME, and takes
``.NAME.old``, which is whole.

Symbolic links are followed: what they point to is replaced, and they stay.
"""

import contextlib
import errno
import os
import re
import shutil
import stat
import time
from pathlib import Path

from ...data.paths import check_path

# What network and user-space file systems answer that cannot sync.
_CANNOT_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
# On Windows a virus scanner or an indexer may hold a file for a moment.
_PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3)  # s


def write_atomic(path, content):
    """Write ``content`` (bytes or text) to ``path``: a kill leaves the old file or the new one.

    The mode of the old file is kept. What is no regular file (a device, a pipe) is written to, not replaced.

    Raises:
        InputError: for a path that no file system can have.
        OSError: as the system says (no space, no permission), with a path; the old file is then untouched.
    """
    if isinstance(content, str):
        content = content.encode("utf-8", "backslashreplace")  # lone surrogates have no UTF-8
    old = _status(check_path(path))
    if old is not None and not stat.S_ISREG(old.st_mode):
        with open(path, "wb") as file:
            file.write(content)
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
    """Replace the directory ``path`` by one that holds ``contents``, a dict of name to bytes or text.

    The directory above must exist: it is not created again if it was deleted.

    Raises:
        OSError: as the system says, with a path; the old directory is then untouched.
    """
    path = Path(os.path.realpath(path))
    new, old = _beside(path, "new"), _beside(path, "old")
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


def whole_directory(path):
    """Where the files of the exchanged directory ``path`` are now, or None if there are none."""
    path = Path(os.path.realpath(path))
    for place in (path, _beside(path, "old")):
        if place.is_dir():
            return place
    return None


def read_directory_atomic(path, names):
    """The bytes of files of an exchanged directory, a dict of name to bytes, all of the same write.

    Another process may exchange the directory meanwhile.

    Raises:
        FileNotFoundError: where a file is missing.
    """
    for _ in range(100):
        directory = whole_directory(path) or Path(path)
        before, missing = _identity(directory), None
        try:
            contents = {name: (directory / name).read_bytes() for name in names}
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
    """Put ``path`` back in its place if a kill came between the two moves of an exchange."""
    place, path = whole_directory(path), Path(os.path.realpath(path))
    if place is not None and place != path:
        _retry(os.rename, place, path)


def remove_leftovers(folder, files=(), directories=()):
    """Remove what killed writers left in ``folder``; none may be writing there.

    Args:
        folder: a directory.
        files: patterns (``re``) of the names that ``write_atomic`` wrote to.
        directories: names that ``write_directory_atomic`` wrote to; an exchange that was cut short is completed.
    """
    temporary = re.compile(rf"\.({'|'.join(files)})\.\d+\.new") if files else None
    for path in folder.iterdir() if temporary else ():
        if temporary.fullmatch(path.name):
            path.unlink(missing_ok=True)
    for name in directories:
        recover_directory(folder / name)
        path = Path(os.path.realpath(folder / name))
        _remove(_beside(path, "new"))
        _remove(_beside(path, "old"))


def _status(path):
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _beside(path, suffix):
    return path.with_name(f".{path.name}.{suffix}")


def _write_through(path, content):
    with _naming(path), open(path, "wb") as file:
        file.write(content)
        file.flush()
        sync(file)


def sync(file):
    """Bring an open file to the disk, where its file system can."""
    try:
        os.fsync(file.fileno())
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise


def _sync_directory(path):
    # A rename is on the disk only when its directory is; Windows cannot open directories and needs no sync.
    if os.name == "nt":
        return
    with _naming(path):
        try:
            handle = os.open(path, os.O_RDONLY)
        except PermissionError:  # a directory that may be written to but not listed
            return
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno not in _CANNOT_SYNC:
                raise
        finally:
            os.close(handle)


@contextlib.contextmanager
def _naming(path):
    """Add ``path`` to an OSError that names none, such as those of write and fsync."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def _retry(move, source, target):
    for pause in _PAUSES:
        try:
            return move(source, target)
        except PermissionError:
            time.sleep(pause)
    return move(source, target)


def _remove(directory):
    if directory.is_symlink():
        directory.unlink()
    elif directory.exists():
        shutil.rmtree(directory)
