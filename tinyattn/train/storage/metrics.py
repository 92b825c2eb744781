"""What a run measured, one JSON object a line: a step, and the quantities measured at it."""

import hashlib
import json
import math
from pathlib import Path

from ...data import InputError
from .arrays import DamagedFileError
from .atomic import sync, write_atomic

# What a line may hold beside "step"; the unit in brackets.
QUANTITIES = {
    "loss": "cross-entropy of the batch before the step [nats a character]",
    "val_loss": "cross-entropy of the validation part, or of --evaluate-characters of it [nats a character]",
    "tokens_per_second": "characters trained on, since the last line [1/s]",
    "learning_rate": "of AdamW [a step]",
    "grad_norm": "Euclidean norm of all gradients before clipping",
    "seconds": "since the beginning, time between a stop and its resumption left out [s]",
}


class Metrics:
    """The file ``metrics.jsonl`` of a run, open for appending.

    Args:
        path: the file.
        keep: on resumption, the last step whose lines are kept: later ones will be measured again.
        mark: on resumption, what ``mark`` gave when the state was saved: the file is cut off there. It takes the
            place of ``keep`` for the runs that have it.

    Raises:
        DamagedFileError: where the file is not what it was at the ``mark``.
    """

    def __init__(self, path, keep=None, mark=None):
        self.path = Path(path)
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
        """Add a line; a quantity that is None or not a finite number is left out."""
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
        """Bring what was appended to the disk, and return its length and digest: a dict for the state saved now."""
        self._file.flush()
        sync(self._file)
        return {"bytes": self._length, "sha256": self._digest.hexdigest()}

    def close(self):
        """Flush and close the file."""
        self._file.close()


def _to_line(values):
    return (
        json.dumps(
            {
                k: round(v, 6) if isinstance(v, float) and k != "learning_rate" else v
                for k, v in values.items()
            }
        )
        + "\n"
    )


def marked_part(content, mark, path):
    """The bytes of ``content`` up to a ``mark``.

    Raises:
        DamagedFileError: where they are not those that were marked.
    """
    part = content[: mark["bytes"]]
    if hashlib.sha256(part).hexdigest() != mark["sha256"]:
        raise DamagedFileError(
            f"{path} is damaged (it is not what it was when the state was saved): "
            f"move it away to go on without the losses so far"
        )
    return part


def read_metrics(path):
    """The lines of ``metrics.jsonl`` as dicts; one that a kill cut short, or that is no text, is left out.

    Raises:
        InputError: where a line has no whole number as its step, or a quantity that is no number.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "metrics.jsonl")
    >>> _ = path.write_text('{"step": 1, "loss": 4.2}\\n{"step": 2, "lo')
    >>> read_metrics(path)
    [{'step': 1, 'loss': 4.2}]
    """
    return parse_metrics(Path(path).read_bytes(), path)


def parse_metrics(content, path):
    """As ``read_metrics``, of the bytes of a file; ``path`` is for the message."""
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
    except OverflowError:  # an integer beyond all floats
        return False
