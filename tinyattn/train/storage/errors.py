"""Errors and warnings about the files of a run."""

from ...data import InputError


class DamagedFileError(InputError):
    """A file of a run is not what was written: truncated, changed, or another file."""


class RunWarning(UserWarning):
    """A warning about a run; the command line prints it on one line."""
