"""What a run measured, one JSON object a line: a step, and the quantities measured at it."""

import json
import math
from pathlib import Path

from .atomic import write_atomic

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
    """

    def __init__(self, path, keep=None):
        self.path = Path(path)
        if keep is not None and self.path.is_file():
            lines = [line for line in read_metrics(self.path) if line["step"] <= keep]
            write_atomic(self.path, "".join(map(_to_line, lines)))
        self._file = open(self.path, "a", encoding="utf-8")

    def append(self, step, **quantities):
        """Add a line; a quantity that is None or not a finite number is left out."""
        kept = {
            name: value
            for name, value in quantities.items()
            if value is not None and math.isfinite(value)
        }
        self._file.write(_to_line({"step": step, **kept}))

    def flush(self):
        """Hand what was appended to the operating system."""
        self._file.flush()

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


def read_metrics(path):
    """The lines of ``metrics.jsonl`` as dicts; one that a kill cut short, or that is no text, is left out.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "metrics.jsonl")
    >>> _ = path.write_text('{"step": 1, "loss": 4.2}\\n{"step": 2, "lo')
    >>> read_metrics(path)
    [{'step': 1, 'loss': 4.2}]
    """
    lines = []
    for line in Path(path).read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            values = json.loads(line)
        except ValueError:
            continue
        if isinstance(values, dict) and "step" in values:
            lines.append(values)
    return lines
