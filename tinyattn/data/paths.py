"""Validation of paths from user input."""

import os
import stat
from pathlib import Path
from typing import Annotated

from ..error_messages import shown
from .errors import InputError


class IsPath:
    """Annotation of a string that is the path of a file or directory; see ``PathText``."""


PathText = Annotated[str, IsPath()]  # the type of an option in which ``~`` is the home directory


def check_path(path, option="the path"):
    """Return ``path`` if it is valid on this system.

    Args:
        path: a string or path object.
        option: its name in error messages.

    Raises:
        InputError: for a NUL character, or a character that the file system's encoding cannot represent.

    >>> check_path("runs/a")
    'runs/a'
    """
    text = os.fspath(path)
    if "\0" in text:
        raise InputError(f"{option} contains a NUL character: {shown(text)} is not a valid path")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise InputError(
            f"{option} contains a character that is invalid in paths here "
            f"({error.object[error.start]!r}): {shown(text)}"
        ) from None
    return path


def expand_path(path, option="the path"):
    """Expand ``~`` or ``~user`` at the beginning of ``path`` to the home directory, after ``check_path``.

    A shell expands separate words only, not ``--out=~/runs``, configuration files and environment variables.

    Args:
        path: a string.
        option: its name in error messages.

    Raises:
        InputError: for an empty path, an unknown home directory, and as ``check_path``.

    >>> expand_path("~/runs") == os.path.join(os.path.expanduser("~"), "runs"), expand_path("./~")
    (True, './~')
    """
    if not path:
        raise InputError(f"{option} is empty: give a path")
    expanded = os.path.expanduser(check_path(path, option))
    if expanded.startswith("~"):
        home, _, _ = expanded.replace(os.sep, "/").partition("/")
        raise InputError(
            f"{option}: the home directory {home} is unknown; give the full path, or ./{home} for "
            f"a file or directory of that name"
        )
    return expanded


def readable_file(path):
    """Return ``path`` as a Path if it is a file or nothing; reading a pipe or a device could block or never end.

    Raises:
        InputError: for a named pipe, a socket or a device.
    """
    path = Path(path)
    try:
        mode = path.stat().st_mode
    except OSError:  # reported when the file is opened
        return path
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(f"{path} is a pipe, a socket or a device: expected a file")
    return path
