"""The check of paths before any system call sees them."""

import os

from .errors import InputError


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
        raise InputError(f"{option} holds a NUL character: {text!r} cannot be a path")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise InputError(
            f"{option} holds a character that no path can have here ({error.object[error.start]!r}): {text!r}"
        ) from None
    return path
