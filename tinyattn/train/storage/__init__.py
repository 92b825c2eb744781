"""What a run leaves on the disk: its directory, atomic files, arrays, metrics."""

from .arrays import DamagedFileError
from .atomic import write_atomic
from .metrics import Metrics, read_metrics
from .run_directory import RunDirectory

__all__ = ["DamagedFileError", "Metrics", "RunDirectory", "read_metrics", "write_atomic"]
