"""The user's cache directory: the downloaded corpus, and the ids of long texts."""

import os
from pathlib import Path

from .errors import InputError
from .paths import expand_path


def cache_folder():
    """The directory for files that can be made again: TINYATTN_CACHE in the environment, else the system's place.

    Raises:
        InputError: if the user has no home directory, as in some containers.
    """
    if given := os.environ.get("TINYATTN_CACHE"):
        return Path(expand_path(given, "TINYATTN_CACHE"))
    import pooch

    try:
        folder = os.path.expanduser(pooch.os_cache("tinyattn"))
    except (RuntimeError, KeyError, OSError):
        folder = "~"
    if folder.startswith("~"):
        raise InputError(
            "there is no home directory for the cache: set TINYATTN_CACHE in the environment to a directory"
        )
    return Path(folder)
