"""The learner's progress: the file ``progress.json`` in the directory of the exercises."""

import datetime
import json
from pathlib import Path

from ..data import InputError
from ..data.atomic import write_atomic
from ..data.json_text import parse_json
from .exercise import PATH

NAME = "progress.json"


class Record:
    """A dict for each exercise, with the optional keys ``started``, ``checks``, ``passed``, ``hints`` and ``solution``.

    Times are UTC; ``checks`` and ``hints`` are counts.

    Raises:
        InputError: if the file is damaged.
    """

    def __init__(self, directory):
        self.path = Path(directory) / NAME
        self.exercises = {}
        if self.path.is_file():
            content = parse_json(self.path.read_text("utf-8", "replace"), str(self.path))
            if not isinstance(content, dict) or not all(
                isinstance(one, dict) for one in content.values()
            ):
                raise InputError(
                    f"{self.path} is no record of exercises: move it away, and a new one is begun"
                )
            self.exercises = content

    def of(self, name):
        """The dict of an exercise; empty if it was not started."""
        return self.exercises.get(name, {})

    def note(self, name, **values):
        """Set values in the dict of an exercise, and save the file; ``True`` is replaced by the current time."""
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        values = {key: now if value is True else value for key, value in values.items()}
        self.exercises[name] = {**self.of(name), **values}
        ordered = {one: self.exercises[one] for one in PATH if one in self.exercises}
        write_atomic(self.path, json.dumps({**ordered, **self.exercises}, indent=2) + "\n")

    def next(self, after=None):
        """The first unsolved exercise ``after`` the given one, else the first of all; None if all are solved."""
        start = PATH.index(after) + 1 if after else 0
        order = (*PATH[start:], *PATH[:start])
        return next((name for name in order if "passed" not in self.of(name)), None)
