"""A run on disk: directory, file lock, atomic writes, arrays, metrics."""

from .atomic import write_atomic
from .errors import DamagedFileError
from .metrics import Metrics, read_metrics
from .run_directory import RunDirectory

__all__ = ["DamagedFileError", "Metrics", "RunDirectory", "read_metrics", "write_atomic"]
