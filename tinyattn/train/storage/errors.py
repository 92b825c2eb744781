"""Errors and warnings about the files of a run."""

from ...data import InputError, InputWarning


class DamagedFileError(InputError):
    """A file of a run is not what was written: truncated, changed, or another file."""


class RunWarning(InputWarning):
    """A warning about a run."""
