"""The metrics of a run (``metrics.jsonl``): one JSON object per line, a step and quantities measured at it."""

import hashlib
import json
import math
import os
from pathlib import Path

from ...data import InputError
from ...data.atomic import sync, write_atomic
from ...data.paths import readable_file
from .errors import DamagedFileError

# The keys of a line besides "step"; units in brackets.
QUANTITIES = {
    "loss": "cross-entropy of the batch before the step [nats per character or token]",
    "bits_per_character": "the same for each character of the text [bits]",
    "val_loss": "cross-entropy of the validation part, or of --evaluate-characters of it [nats per character or token]",
    "val_bits_per_character": "the same for each character of the text [bits]",
    "tokens_per_second": "training throughput of the step, in characters or tokens [1/s]",
    "learning_rate": "of AdamW [per step]",
    "grad_norm": "Euclidean norm of all gradients before clipping",
    "seconds": "training time so far, without the time between a stop and its resumption [s]",
}


class Metrics:
    """The file ``metrics.jsonl`` of a run, open for appending.

    Args:
        path: the file.
        keep: on resumption, the last step whose lines are kept; later ones are measured again.
        mark: on resumption, the result of ``mark`` when the state was saved: the file is truncated there, and
            ``keep`` is ignored. Runs written before there were digests have none.

    Raises:
        DamagedFileError: if the file before the ``mark`` was changed.
    """

    def __init__(self, path, keep=None, mark=None):
        self.path = Path(path) if path == os.devnull else readable_file(path)
        kept = b""
        if self.path.is_file():
            content = self.path.read_bytes()
            kept = content if keep is None else b""
            if mark is not None:
                kept = marked_part(content, mark, self.path)
            elif keep:
                lines = [line for line in parse_metrics(content, self.path) if line["step"] <= keep]
                kept = "".join(map(_to_line, lines)).encode()
            if kept != content:
                write_atomic(self.path, kept)
        self._digest = hashlib.sha256(kept)
        self._length = len(kept)
        self._file = open(self.path, "ab")

    def append(self, step, **quantities):
        """Append a line, without quantities that are None or not finite."""
        kept = {
            name: value
            for name, value in quantities.items()
            if value is not None and math.isfinite(value)
        }
        line = _to_line({"step": step, **kept}).encode()
        self._digest.update(line)
        self._length += len(line)
        self._file.write(line)

    def mark(self):
        """Flush the file to disk and return its length and digest, a dict to store in the state saved now."""
        self._file.flush()
        sync(self._file)
        return {"bytes": self._length, "sha256": self._digest.hexdigest()}

    def close(self):
        """Flush and close the file."""
        self._file.close()


def _to_line(values):
    rounded = {
        name: round(value, 6) if isinstance(value, float) and name != "learning_rate" else value
        for name, value in values.items()
    }
    return json.dumps(rounded) + "\n"


def marked_part(content, mark, path):
    """The bytes of ``content`` before a ``mark``, verified against its digest.

    Raises:
        DamagedFileError: if they were changed.
    """
    part = content[: mark["bytes"]]
    if hashlib.sha256(part).hexdigest() != mark["sha256"]:
        raise DamagedFileError(
            f"{path} is damaged (it was changed since the state was saved): "
            f"move it away to continue without the losses so far"
        )
    return part


def read_metrics(path):
    """The lines of ``metrics.jsonl`` as dicts; truncated lines and lines that are not JSON are skipped.

    Raises:
        InputError: if a line has a step that is not a whole number, or a quantity that is not a finite number.

    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp(), "metrics.jsonl")
    >>> _ = path.write_text('{"step": 1, "loss": 4.2}\\n{"step": 2, "lo')
    >>> read_metrics(path)
    [{'step': 1, 'loss': 4.2}]
    """
    return parse_metrics(readable_file(path).read_bytes(), path)


def parse_metrics(content, path):
    """Like ``read_metrics``, from the bytes of a file; ``path`` is for the error message."""
    lines = []
    for number, line in enumerate(content.decode("utf-8", "replace").split("\n"), start=1):
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(values, dict) and "step" in values:
            _check_line(values, number, path)
            lines.append(values)
    return lines


def _check_line(values, number, path):
    for name, value in values.items():
        kinds = int if name == "step" else int | float
        if (name == "step" or name in QUANTITIES) and (
            not isinstance(value, kinds) or isinstance(value, bool) or not _is_finite(value)
        ):
            expected = "a whole number" if name == "step" else "a finite number"
            raise InputError(
                f"{path}, line {number}: {name!r} must be {expected}, given {str(value)[:60]!r}; "
                f"remove the line, or move the file away"
            )


def _is_finite(value):
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer larger than any float
        return False
