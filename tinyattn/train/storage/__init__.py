"""A run on disk: directory, file lock, arrays, metrics."""

from .errors import DamagedFileError
from .metrics import Metrics, read_metrics
from .run_directory import RunDirectory

__all__ = ["DamagedFileError", "Metrics", "RunDirectory", "read_metrics"]
