"""The directory a training run leaves behind.

    RUN/config.json             every option, as train/config.py writes it
    RUN/vocab.json              the characters in the order of their ids
    RUN/best/, RUN/last/        model.safetensors, optimizer.safetensors, state.json
    RUN/snapshots/              step-000100.safetensors, ...: the model along the way
    RUN/metrics.jsonl           one object a line
    RUN/loss.png                the loss curve

The three files of a state are exchanged together (atomic.py), and digests tell whether what is read belongs together
(seal.py). Only the process that holds the lock writes; anyone may read meanwhile.
"""

import json
import os
import re
import shlex
import warnings
from dataclasses import dataclass
from pathlib import Path

from ...data import CharVocabulary, InputError
from ...data.json_text import parse_json
from ...data.paths import check_path
from ..config import (
    config_to_json,
    flatten,
    identity_of,
    make_config,
    option,
    options_from_json,
)
from .arrays import DamagedFileError, arrays_from_bytes, arrays_to_bytes, digest_of_arrays
from .atomic import (
    read_directory_atomic,
    remove_leftovers,
    whole_directory,
    write_atomic,
    write_directory_atomic,
)
from .lock import DirectoryLock
from .metrics import marked_part, parse_metrics
from .seal import RunWarning, check_seal, digest_of, open_state, seal

STATES = ("best", "last")
_MODEL, _OPTIMIZER, _STATE = "model.safetensors", "optimizer.safetensors", "state.json"
_SNAPSHOT = re.compile(r"step-(\d+)\.safetensors")


@dataclass(frozen=True)
class SavedState:
    """A state as it was saved.

    Attributes:
        values: dict of what JSON holds: step, random states, losses.
        model: dict of parameter name to array.
        optimizer: dict of name to array, or None where it was not asked for.
        metrics: the mark of the metrics up to then (``Metrics.mark``), or None.
    """

    values: dict
    model: dict
    optimizer: dict | None
    metrics: dict | None


class RunDirectory:
    """A run on the disk; nothing is read or written before it is asked for."""

    def __init__(self, path):
        self.path = Path(check_path(path, "the run's path"))
        self._lock = None
        self._belongs = None  # settings and vocabulary of every state of this run
        self._texts = {}  # name to text of the files that every state needs

    def __reduce__(self):
        return type(self), (self.path,)  # to another process: the lock stays here

    @classmethod
    def create(cls, path, config, vocabulary):
        """Begin a run in ``path``, which must not hold one, and lock it.

        Raises:
            InputError: where ``path`` holds a run or is a file, or another process begins a run there.
        """
        run = cls(path)
        if run.path.exists() and not run.path.is_dir():
            raise InputError(f"--out {path} is a file: give a directory for the run")
        run.path.mkdir(parents=True, exist_ok=True)
        run.lock()
        try:
            if run.holds_run():
                raise InputError(
                    f"{path} already holds a run: go on with it (--resume {shlex.quote(str(path))}), "
                    f"or give another directory with --out"
                )
            run._write_text("vocab.json", vocabulary.to_json())
            run.write_config(config)
            run._belongs = _belongings(config, vocabulary)
        except BaseException:
            run.unlock()
            raise
        return run

    @classmethod
    def open(cls, path):
        """The run in ``path``, not locked.

        Raises:
            InputError: where there is none.
        """
        run = cls(path)
        if not run.path.is_dir():
            raise InputError(f"there is no directory {path}: give one that tinyattn train wrote")
        if not (run.path / "config.json").exists():
            raise InputError(
                f"{path} is not a run (it has no config.json): "
                f"give a directory that tinyattn train wrote"
            )
        return run

    # ---- the lock

    def lock(self):
        """Let no other process train this run until ``unlock``, and clear what killed ones left.

        Raises:
            InputError: where another process trains it.
        """
        self._lock = DirectoryLock(self.path)
        snapshots = self.path / "snapshots"
        remove_leftovers(
            self.path,
            (r"config\.json", r"vocab\.json", r"metrics\.jsonl", r"loss\.png"),
            STATES,
        )
        if snapshots.is_dir():
            remove_leftovers(snapshots, (_SNAPSHOT.pattern,))

    def unlock(self):
        """Give the lock back."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def is_locked(self):
        """Whether this object holds the lock."""
        return self._lock is not None

    def follow(self):
        """Take the path that the run's directory has now, if it was moved while it is locked.

        Raises:
            InputError: where it was deleted, or moved to where it cannot be found.
        """
        if self._lock is None:
            return
        place = self._lock.find(self.path)
        if place is None:
            raise InputError(
                f"the run's directory {self.path} is gone, it was deleted or moved while it was trained: "
                f"nothing was saved, begin again with tinyattn train"
            )
        self.path = place

    def holds_run(self):
        """Whether a state was saved here; what was killed before its first one can be begun again."""
        return any(map(self.has_state, STATES))

    # ---- configuration and vocabulary

    def write_config(self, config):
        """Write ``config.json``, with its digest."""
        content = seal(json.loads(config_to_json(config)))
        self._write_text("config.json", json.dumps(content, indent=2) + "\n")

    def _write_text(self, name, text):
        write_atomic(self.path / name, text)
        self._texts[name] = text

    def config(self):
        """The run's configuration (``TrainConfig``).

        Raises:
            InputError: where it is damaged, or was changed since.
        """
        return self._read_config()[0]

    def _read_config(self):
        """The configuration, and whether it had a digest."""
        path = self.path / "config.json"
        text = _read_text(path)
        values = parse_json(text, str(path))
        sealed = False
        if isinstance(values, dict):
            try:
                _, sealed = check_seal(values)
            except ValueError as error:
                raise DamagedFileError(
                    f"{path} is damaged or was changed ({error}): undo the change, and give the options that may "
                    f"change with --resume on the command line"
                ) from None
        try:
            return make_config(options_from_json(text, str(path))), sealed
        except InputError as error:
            raise DamagedFileError(f"{path} cannot be used: {error}") from None

    def vocabulary(self):
        """The run's vocabulary, characters in the order of their ids."""
        path = self.path / "vocab.json"
        text = _read_text(path)
        try:
            vocabulary = CharVocabulary.from_json(text)
        except InputError as error:
            raise DamagedFileError(f"{path} is damaged: {error}") from None
        self._texts["vocab.json"] = text
        return vocabulary

    # ---- states

    def write_states(self, names, model, optimizer, state, metrics=None):
        """Write one state under each of ``names`` (of ``STATES``), whole or not at all.

        Args:
            names: for instance ``("last", "best")``.
            model: dict of parameter name to NumPy array.
            optimizer: dict of name to NumPy array.
            state: what JSON can hold: step, random states, losses.
            metrics: the mark of the metrics up to now, if there are any.

        Raises:
            InputError: where the run's directory is gone.
            OSError: as the system says; the old states are then untouched.
        """
        self.follow()
        for name, text in self._texts.items():
            # Someone may have emptied the directory while the run is trained.
            if not (self.path / name).exists():
                write_atomic(self.path / name, text)
        if self._belongs is None:
            self._belongs = _belongings(self.config(), self.vocabulary())
        contents = {_MODEL: arrays_to_bytes(model), _OPTIMIZER: arrays_to_bytes(optimizer)}
        digests = {file: digest_of_arrays(content) for file, content in contents.items()}
        json.dumps(state, allow_nan=False)  # refuses what JSON has not before a digest is made
        state = seal({**state, "belongs_to": {**self._belongs, **digests, "metrics": metrics}})
        contents[_STATE] = json.dumps(state, indent=1) + "\n"
        for name in names:
            write_directory_atomic(self.path / name, contents)

    def read(self, name="last", optimizer=True):
        """A ``SavedState``, its files checked for damage and for belonging together.

        Raises:
            InputError: where there is no such state.
            DamagedFileError: where a file is not what was written, or belongs to something else.
        """
        files = (_MODEL, _OPTIMIZER) if optimizer else (_MODEL,)
        values, belongs, arrays = self._read(name, files)
        mark = belongs and belongs["metrics"]
        return SavedState(values, arrays[_MODEL], arrays.get(_OPTIMIZER), mark)

    def read_model(self, name="best"):
        """The model's arrays of a state, checked for damage."""
        return self._read(name, (_MODEL,))[2][_MODEL]

    def read_optimizer(self, name="last"):
        """The optimiser's arrays of a state, checked for damage."""
        return self._read(name, (_OPTIMIZER,))[2][_OPTIMIZER]

    def read_state(self, name="last"):
        """The rest of a state: step, random states, losses."""
        return self._read(name, ())[0]

    def has_state(self, name):
        """Whether there is a state of that name."""
        return whole_directory(self.path / name) is not None

    def _read(self, name, files):
        """The values of a state, what it belongs to (None for an old run), and the arrays of ``files``."""
        self._state_directory(name)  # which says what there is instead
        try:
            contents = read_directory_atomic(self.path / name, (_STATE, *files))
        except FileNotFoundError as error:
            raise InputError(f"{error.filename} is missing: the run is not complete") from None
        advice = self._advice(name)
        path = self.path / name / _STATE
        try:
            values, belongs = open_state(contents.pop(_STATE))
        except (ValueError, RecursionError) as error:
            raise DamagedFileError(f"{path} is damaged ({error}): {advice}") from None
        self._check_belonging(belongs, path)
        arrays = {
            file: arrays_from_bytes(
                content, str(self.path / name / file), advice, belongs and belongs[file]
            )
            for file, content in contents.items()
        }
        return values, belongs, arrays

    def _check_belonging(self, belongs, path):
        config, sealed = self._read_config()
        vocabulary = self.vocabulary()
        self._belongs = _belongings(config, vocabulary)
        if belongs is None:
            warnings.warn(
                f"the run {self.path} was written before states had digests: damage to it cannot be detected",
                RunWarning,
                stacklevel=1,
            )
            return
        if not sealed:
            raise DamagedFileError(
                f"{self.path / 'config.json'} was changed (it has no digest, and {path} has one): undo the change"
            )
        given = flatten(config)
        for name, value in belongs["settings"].items():
            if given.get(name, value) != value:
                raise DamagedFileError(
                    f"{self.path / 'config.json'} has {option(name)} {given[name]!r}, and {path} belongs to a run "
                    f"with {value!r}: undo the change"
                )
        if belongs["vocabulary"] != self._belongs["vocabulary"]:
            raise DamagedFileError(
                f"{self.path / 'vocab.json'} is damaged or was changed: {path} belongs to another vocabulary"
            )

    def _state_directory(self, name):
        directory = whole_directory(self.path / name)
        if directory is None:
            there = [one for one in STATES if self.has_state(one)]
            hint = (
                f"it has {there[0]}"
                if there
                else f"it stopped before anything was saved; begin it again with "
                f"tinyattn train --config {shlex.quote(f'{self.path}/config.json')} --out {shlex.quote(str(self.path))}"
            )
            raise InputError(f"the run {self.path} has no state {name!r}: {hint}")
        return directory

    def _advice(self, name):
        others = [one for one in STATES if one != name and self.has_state(one)]
        if not others:
            return "there is no other state"
        if name == "best":
            return "the state 'last' may be whole"
        return f"the state 'best' may be whole, and --resume takes it once {self.path / name} is moved away"

    # ---- metrics and snapshots

    def read_metrics(self):
        """The lines of ``metrics.jsonl``, the part up to the last state checked; none where there is no file.

        Raises:
            InputError: where the file is damaged, or the state.
        """
        path = self.path / "metrics.jsonl"
        name = next((name for name in ("last", "best") if self.has_state(name)), None)
        # The state first: the file only grows until the next one is saved.
        belongs = name and self._read(name, ())[1]
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return []
        if belongs and belongs["metrics"] is not None:
            marked_part(content, belongs["metrics"], path)
        return parse_metrics(content, path)

    def check_metrics(self, mark):
        """Refuse a ``metrics.jsonl`` that is not what it was at ``mark``; None, or no file, is no reason to."""
        path = self.path / "metrics.jsonl"
        if mark is not None and path.is_file():
            marked_part(path.read_bytes(), mark, path)

    def snapshot_path(self, step):
        """The file of the snapshot of ``step``."""
        return self.path / "snapshots" / f"step-{step:06d}.safetensors"

    def write_snapshot(self, step, model):
        """Keep the model's arrays at ``step``."""
        self.follow()
        path = self.snapshot_path(step)
        path.parent.mkdir(exist_ok=True)
        write_atomic(path, arrays_to_bytes(model))

    def snapshot_steps(self):
        """The steps of the snapshots there are, in order."""
        names = map(_SNAPSHOT.fullmatch, _names_in(self.path / "snapshots"))
        return sorted(int(name[1]) for name in names if name)

    def read_snapshot(self, step):
        """The model's arrays at ``step``."""
        path = self.snapshot_path(step)
        try:
            return arrays_from_bytes(path.read_bytes(), str(path), "move it away")
        except FileNotFoundError:
            raise InputError(f"{path} is missing: the run is not complete") from None


def _belongings(config, vocabulary):
    settings = identity_of(make_config(options_from_json(config_to_json(config))))
    return {"settings": settings, "vocabulary": digest_of(vocabulary.characters)}


def _names_in(folder):
    return os.listdir(folder) if folder.is_dir() else []


def _read_text(path):
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path} is missing: the run is not complete") from None
    except UnicodeDecodeError:
        raise DamagedFileError(f"{path} is damaged: it is not UTF-8 text") from None
