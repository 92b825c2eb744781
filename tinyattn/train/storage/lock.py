"""File lock of a run's directory: one process trains a run at a time."""

import contextlib
import os
import weakref
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    import msvcrt

    fcntl = None

from ...data import InputError

_LOCK_FILE = ".lock"


class DirectoryLock:
    """An exclusive lock of a directory until ``release``, the end of the process, or the deletion of this object.

    The directory itself is locked (``flock``): no lock file is needed, and a directory that is moved stays locked.
    On Windows, where directories cannot be opened, it is the file ``.lock`` in it. On file systems without locks,
    nothing is locked.

    Args:
        path: a directory.

    Raises:
        InputError: if another process holds the lock.
    """

    def __init__(self, path):
        self._descriptor = None
        if fcntl:
            self._descriptor = os.open(path, os.O_RDONLY)
        else:
            self._descriptor = os.open(os.path.join(path, _LOCK_FILE), os.O_RDWR | os.O_CREAT)
        _locks.add(self)
        try:
            if fcntl:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            else:
                msvcrt.locking(self._descriptor, msvcrt.LK_NBLCK, 1)  # the first byte
        except (BlockingIOError, PermissionError):  # the latter on Windows
            self.release()
            raise InputError(
                f"another process is training the run {path}: wait for it, or give another directory with --out"
            ) from None
        except OSError:  # a file system without locks
            pass

    def release(self):
        """Release the lock."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            _locks.discard(self)
            os.close(descriptor)

    __del__ = release

    def find(self, path):
        """The present path of the locked directory: ``path``, or where it was moved; None if it was deleted.

        A moved directory is found on Linux only; elsewhere the result is None.
        """
        if self._descriptor is None or fcntl is None:
            return path if os.path.isdir(path) else None
        own = os.fstat(self._descriptor)
        places = [path]
        with contextlib.suppress(OSError):
            places.append(os.readlink(f"/proc/self/fd/{self._descriptor}"))
        for place in places:
            with contextlib.suppress(OSError):
                if os.path.samestat(own, os.stat(place)):
                    return Path(place)
        return None


_locks = weakref.WeakSet()


def _release_in_child():
    # A forked process inherits the descriptors, and would keep the locks if its parent is killed.
    for lock in list(_locks):
        lock.release()


if fcntl:
    os.register_at_fork(after_in_child=_release_in_child)
