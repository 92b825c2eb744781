"""A lock on a directory: one process trains a run at a time."""

import os
import weakref
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

from ...data import InputError


class DirectoryLock:
    """The lock of a directory, held until ``release``, the end of the process, or the end of this object.

    The directory itself is locked (``flock``), so that nothing is left behind, and the lock stays with a directory that
    is moved. Where the file system has no locks, or on Windows, nothing is locked.

    Args:
        path: a directory.

    Raises:
        InputError: where another process holds the lock.
    """

    def __init__(self, path):
        self._descriptor = None
        if fcntl is None:
            return
        self._descriptor = os.open(path, os.O_RDONLY)
        _held.add(self)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise InputError(
                f"another process is training the run {path}: wait for it, or give another directory with --out"
            ) from None
        except OSError:  # a file system without locks
            pass

    def release(self):
        """Give the lock back."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            _held.discard(self)
            os.close(descriptor)

    __del__ = release

    def find(self, path):
        """Where the locked directory is now: ``path``, where it was moved to, or None if it was deleted.

        Only Linux says where a directory was moved to; elsewhere the answer is then None.
        """
        if self._descriptor is None:
            return path if os.path.isdir(path) else None
        own = os.fstat(self._descriptor)
        for place in (path, _name_of(self._descriptor)):
            try:
                if place is not None and os.path.samestat(own, os.stat(place)):
                    return Path(place)
            except OSError:
                pass
        return None


def _name_of(descriptor):
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return None


_held = weakref.WeakSet()


def _release_in_copy():
    # A forked process has the descriptors too, and would keep the locks when its parent is killed.
    for lock in list(_held):
        lock.release()


if fcntl:
    os.register_at_fork(after_in_child=_release_in_copy)
