"""Paths as a user gives them, before any system call sees them."""

import os
from typing import Annotated

from ..error_messages import shown
from .errors import InputError


class IsPath:
    """A note on a text that names a file or directory; see ``PathText``."""


PathText = Annotated[str, IsPath()]  # the type of an option in which ``~`` is the home directory


def check_path(path, option="the path"):
    """Refuse a path that no file system can have, and return it otherwise.

    Args:
        path: a string or path object.
        option: what to call it in a message.

    Raises:
        InputError: for a NUL character, or a character that the file system's encoding lacks.

    >>> check_path("runs/a")
    'runs/a'
    """
    text = os.fspath(path)
    if "\0" in text:
        raise InputError(f"{option} holds a NUL character: {shown(text)} cannot be a path")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise InputError(
            f"{option} holds a character that no path can have here ({error.object[error.start]!r}): {shown(text)}"
        ) from None
    return path


def expand_path(path, option="the path"):
    """``path`` with ``~`` or ``~user`` at its beginning replaced by the home directory, checked by ``check_path``.

    A shell does this for a word of its own; for ``--out=~/runs``, a configuration file and the environment it does not.

    Args:
        path: a string.
        option: what to call it in a message.

    Raises:
        InputError: for an empty path, a home directory that is not known, and as ``check_path``.

    >>> expand_path("~/runs") == os.path.join(os.path.expanduser("~"), "runs"), expand_path("./~")
    (True, './~')
    """
    if not path:
        raise InputError(f"{option} is empty: give a path")
    expanded = os.path.expanduser(check_path(path, option))
    if expanded.startswith("~"):
        home, _, _ = expanded.replace(os.sep, "/").partition("/")
        raise InputError(
            f"{option}: the home directory {home} is not known; give the whole path, or ./{home} for "
            f"a file or directory of that name"
        )
    return expanded
