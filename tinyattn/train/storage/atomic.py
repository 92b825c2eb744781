"""Files that are either the old or the new one, whatever happens on the way.

A single file is written beside its place, brought to the disk, and moved over the old one in one
step. A directory of files that belong together cannot be moved over another, so it is exchanged:
``.NAME.new`` is written in full, NAME steps aside to ``.NAME.old``, ``.NAME.new`` becomes NAME.
Whoever looks between the two moves finds no NAME, and takes ``.NAME.old``, which is whole.
"""

import contextlib
import os
import shutil
from pathlib import Path


def write_atomic(path, content):
    """Write ``content`` (bytes or text) to ``path``: a kill leaves the old file or the new.

    Raises:
        OSError: as the system says (no space, no permission); the old file is then untouched.
    """
    path = Path(path)
    if isinstance(content, str):
        content = content.encode("utf-8")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        _write_through(temporary, content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_directory(path.parent)


def write_directory_atomic(path, contents):
    """Replace the directory ``path`` by one that holds ``contents``, a dict of name to bytes or
    text.

    Raises:
        OSError: as the system says; the old directory is then untouched.
    """
    path = Path(path)
    new, old = _beside(path, "new"), _beside(path, "old")
    recover_directory(path)
    _remove(new)
    try:
        new.mkdir(parents=True)
        for name, content in contents.items():
            _write_through(new / name, content.encode() if isinstance(content, str) else content)
        _sync_directory(new)
    except BaseException:
        _remove(new)
        raise
    _remove(old)
    if path.exists():
        os.rename(path, old)
    os.rename(new, path)
    _sync_directory(path.parent)
    _remove(old)


def whole_directory(path):
    """Where the files of the exchanged directory ``path`` are now, or None if there are none."""
    path = Path(path)
    for place in (path, _beside(path, "old")):
        if place.is_dir():
            return place
    return None


def recover_directory(path):
    """Put ``path`` back in its place if a kill came between the two moves of an exchange."""
    place = whole_directory(path)
    if place is not None and place != Path(path):
        os.rename(place, path)


def _beside(path, suffix):
    return path.with_name(f".{path.name}.{suffix}")


def _write_through(path, content):
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path):
    # A rename is on the disk only when its directory is; Windows cannot open directories and
    # needs no sync.
    if os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(directory):
    if directory.exists():
        shutil.rmtree(directory)
