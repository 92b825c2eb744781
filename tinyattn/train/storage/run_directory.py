"""The directory of a training run.

    RUN/config.json             all options, as train/config.py writes them
    RUN/vocab.json              the characters in the order of their ids (tokenizer.json: a byte-level BPE)
    RUN/best/, RUN/last/        model.safetensors, optimizer.safetensors, state.json
    RUN/snapshots/              step-000100.safetensors, ...: the model during training
    RUN/metrics.jsonl           one JSON object per line
    RUN/loss.png                the loss curve

The three files of a state are replaced together (data/atomic.py), and digests detect damage and files of different
states or runs (states.py). Only the process that holds the file lock writes; any process may read at the same time.
"""

import json
import os
import re
import shlex
import warnings
from pathlib import Path

from ...data import InputError
from ...data.atomic import (
    find_directory,
    read_directory_atomic,
    remove_leftovers,
    write_atomic,
    write_directory_atomic,
)
from ...data.json_text import parse_json
from ...data.paths import check_path, readable_file
from ...data.tokenizers import parse_tokenizer
from ...error_messages import shortened
from ...models.huggingface import is_folder
from ..config import config_to_json, make_config, options_from_json
from .arrays import SavedArrays, arrays_from_bytes
from .digests import add_digest, verify_digest
from .errors import DamagedFileError, RunWarning
from .lock import DirectoryLock
from .metrics import marked_part, parse_metrics
from .states import (
    MODEL,
    OPTIMIZER,
    STATE,
    STATES,
    SavedState,
    check_manifest,
    parse_state,
    run_manifest,
    state_files,
)

_SNAPSHOT = re.compile(r"step-(\d+)\.safetensors")


class RunDirectory:
    """A run on disk; creating the object reads and writes nothing."""

    def __init__(self, path):
        self.path = Path(check_path(path, "the run's path"))
        self._lock = None
        self._manifest = None  # the part that all states share
        self._texts = {}  # name to text of the files that all states need

    def __reduce__(self):
        return type(self), (self.path,)  # a copy in another process does not hold the lock

    @classmethod
    def create(cls, path, config, vocabulary):
        """Create a run in ``path`` and lock it.

        Raises:
            InputError: if ``path`` contains a run or is a file, or if another process has locked it.
        """
        run = cls(path)
        if run.path.exists() and not run.path.is_dir():
            raise InputError(f"--out {path} is a file: give a directory for the run")
        run.path.mkdir(parents=True, exist_ok=True)
        run.lock()
        try:
            if run.has_saved_state():
                raise InputError(
                    f"{path} already contains a run: continue it (--resume {shlex.quote(str(path))}), "
                    f"or give another directory with --out"
                )
            for name, text in vocabulary.files().items():
                run._write_text(name, text)
            run.write_config(config)
        except BaseException:
            run.unlock()
            raise
        return run

    @classmethod
    def open(cls, path):
        """The run in ``path``, not locked.

        Raises:
            InputError: if there is none.
        """
        run = cls(path)
        if not os.path.isdir(run.path):  # also for a name that is too long
            raise InputError(
                f"there is no directory {shortened(str(path))}: give one that tinyattn train wrote"
            )
        if is_folder(path):
            raise InputError(
                f"{path} is a pretrained model, not a run: give a directory that tinyattn train wrote"
            )
        if not (run.path / "config.json").exists():
            raise InputError(
                f"{path} is not a run (it has no config.json): "
                f"give a directory that tinyattn train wrote"
            )
        return run

    # ---- the lock

    def lock(self):
        """Lock the run against training by other processes, and remove temporary files of killed ones.

        Raises:
            InputError: if another process holds the lock.
        """
        self._lock = DirectoryLock(self.path)
        files = (
            r"config\.json",
            r"vocab\.json",
            r"tokenizer\.json",
            r"metrics\.jsonl",
            r"loss\.png",
        )
        remove_leftovers(self.path, files, STATES)
        snapshots = self.path / "snapshots"
        if snapshots.is_dir():
            remove_leftovers(snapshots, (_SNAPSHOT.pattern,))

    def unlock(self):
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def is_locked(self):
        """Whether this object holds the lock."""
        return self._lock is not None

    def update_path(self):
        """Set ``path`` to where the directory is now: it may have been moved while it is locked.

        Raises:
            InputError: if it was deleted, or cannot be found.
        """
        if self._lock is None:
            return
        place = self._lock.find(self.path)
        if place is None:
            raise InputError(
                f"the run's directory {self.path} was deleted or moved during training, and nothing was saved: "
                f"start again with tinyattn train"
            )
        self.path = place

    def has_saved_state(self):
        """Whether a state was saved. A run that was killed before that can be created again."""
        return any(map(self.has_state, STATES))

    # ---- configuration and vocabulary

    def write_config(self, config):
        """Write ``config.json``, with its digest."""
        content = add_digest(json.loads(config_to_json(config)))
        self._write_text("config.json", json.dumps(content, indent=2) + "\n")

    def _write_text(self, name, text):
        write_atomic(self.path / name, text)
        self._texts[name] = text

    def config(self):
        """The run's configuration (``TrainConfig``).

        Raises:
            InputError: if it is damaged or was changed.
        """
        return self._read_config()[0]

    def _read_config(self):
        """The configuration, and whether it had a digest."""
        path = self.path / "config.json"
        text = _read_text(path)
        values = parse_json(text, str(path))
        has_digest = False
        if isinstance(values, dict):
            try:
                _, has_digest = verify_digest(values)
            except ValueError as error:
                raise DamagedFileError(
                    f"{path} is damaged or was changed ({error}): undo the change, and give the options that may "
                    f"change with --resume on the command line"
                ) from None
        try:
            # An option added after the run was written has its default: the presets have other values for new runs.
            options = options_from_json(text, str(path))
            return make_config(options, with_preset=False), has_digest
        except InputError as error:
            raise DamagedFileError(f"{path} cannot be used: {error}") from None

    def vocabulary(self):
        """The run's tokenizer."""
        path = self._vocabulary_path()
        text = _read_text(path)
        try:
            vocabulary = parse_tokenizer(text)
        except InputError as error:
            raise DamagedFileError(f"{path} is damaged: {error}") from None
        self._texts[path.name] = text
        return vocabulary

    def _vocabulary_path(self):
        path = self.path / "tokenizer.json"
        return path if path.exists() else self.path / "vocab.json"

    # ---- states

    def write_states(self, names, model, optimizer, values, metrics=None):
        """Save one state under each of ``names`` (of ``STATES``), atomically.

        Args:
            names: for example ``("last", "best")``.
            model: dict of parameter name to NumPy array.
            optimizer: dict of name to NumPy array.
            values: dict that JSON can represent: step, random states, losses.
            metrics: length and digest of the metrics so far (``Metrics.mark``), or None.

        Raises:
            InputError: if the run's directory was deleted.
            OSError: from the operating system; the old states are then unchanged.
        """
        self.update_path()
        for name, text in self._texts.items():
            # Someone may have emptied the directory during training.
            if not (self.path / name).exists():
                write_atomic(self.path / name, text)
        if self._manifest is None:
            self._manifest = run_manifest(self.config(), self.vocabulary())
        files = state_files(model, optimizer, values, {**self._manifest, "metrics": metrics})
        for name in names:
            write_directory_atomic(self.path / name, files)

    def read(self, name="last", optimizer=True):
        """Read a ``SavedState`` and verify its digests.

        Raises:
            InputError: if there is no such state.
            DamagedFileError: if a file is damaged, or belongs to another state or run.
        """
        values, manifest, arrays = self._read(name, (MODEL, OPTIMIZER) if optimizer else (MODEL,))
        metrics = manifest and manifest["metrics"]
        return SavedState(values, arrays[MODEL], arrays.get(OPTIMIZER), metrics)

    def read_state(self, name="last"):
        """The values in ``state.json``: step, random states, losses."""
        return self._read(name, ())[0]

    def has_state(self, name):
        """Whether there is a state of that name."""
        return find_directory(self.path / name) is not None

    def _read(self, name, files):
        """The values of a state, its manifest (None for an old run), and the arrays in ``files``."""
        self._check_state_exists(name)
        folder = self.path / name
        try:
            contents = read_directory_atomic(folder, (STATE, *files))
        except FileNotFoundError as error:
            raise InputError(f"{error.filename} is missing: the run is incomplete") from None
        advice = self._advice(name)
        try:
            values, manifest = parse_state(contents.pop(STATE))
        except (ValueError, RecursionError) as error:
            raise DamagedFileError(f"{folder / STATE} is damaged ({error}): {advice}") from None
        self._check_manifest(manifest, folder / STATE)
        arrays = {
            file: arrays_from_bytes(
                content, str(folder / file), advice, manifest and manifest[file]
            )
            for file, content in contents.items()
        }
        return values, manifest, arrays

    def _check_manifest(self, manifest, state_path):
        config, has_digest = self._read_config()
        if manifest is None:
            warnings.warn(
                f"the run {self.path} was written before states had digests: damage to it cannot be detected",
                RunWarning,
                stacklevel=1,
            )
            return
        if not has_digest:
            raise DamagedFileError(
                f"{self.path / 'config.json'} was changed (it has no digest, and {state_path} has one): undo the change"
            )
        names = self.path / "config.json", self._vocabulary_path()
        check_manifest(manifest, config, self.vocabulary(), state_path, *names)

    def _check_state_exists(self, name):
        if self.has_state(name):
            return
        others = [other for other in STATES if self.has_state(other)]
        path, config = (shlex.quote(f"{self.path}{file}") for file in ("", "/config.json"))
        again = f"tinyattn train --config {config} --out {path}"
        hint = (
            f"it has {others[0]!r}"
            if others
            else f"it stopped before a state was saved; start it again with {again}"
        )
        raise InputError(f"the run {self.path} has no state {name!r}: {hint}")

    def _advice(self, name):
        others = [other for other in STATES if other != name and self.has_state(other)]
        if not others:
            return "there is no other state"
        if name == "best":
            return "the state 'last' may be intact"
        return f"the state 'best' may be intact, and --resume uses it if you move {self.path / name} away"

    # ---- metrics and snapshots

    def read_metrics(self):
        """The lines of ``metrics.jsonl``, verified up to the last state; none if there is no file.

        Raises:
            InputError: if the file or the state is damaged.
        """
        path = self.path / "metrics.jsonl"
        name = next((name for name in ("last", "best") if self.has_state(name)), None)
        # The state first: until the next state is saved, the file only grows.
        manifest = name and self._read(name, ())[1]
        try:
            content = readable_file(path).read_bytes()
        except FileNotFoundError:
            return []
        if manifest and manifest["metrics"] is not None:
            marked_part(content, manifest["metrics"], path)
        return parse_metrics(content, path)

    def check_metrics(self, mark):
        """Raise a DamagedFileError if ``metrics.jsonl`` exists and was changed since ``mark`` (may be None)."""
        path = self.path / "metrics.jsonl"
        if mark is not None and path.is_file():
            marked_part(path.read_bytes(), mark, path)

    def snapshot_path(self, step):
        """The file of the snapshot of ``step``."""
        return self.path / "snapshots" / f"step-{step:06d}.safetensors"

    def write_snapshot(self, step, model):
        """Save the model's arrays at ``step``."""
        self.update_path()
        path = self.snapshot_path(step)
        path.parent.mkdir(exist_ok=True)
        write_atomic(path, SavedArrays(model))

    def snapshot_steps(self):
        """The steps of all snapshots, in order."""
        folder = self.path / "snapshots"
        names = map(_SNAPSHOT.fullmatch, os.listdir(folder) if folder.is_dir() else ())
        return sorted(int(name[1]) for name in names if name)

    def read_snapshot(self, step):
        """The model's arrays at ``step``."""
        path = self.snapshot_path(step)
        try:
            return arrays_from_bytes(readable_file(path).read_bytes(), str(path), "move it away")
        except FileNotFoundError:
            raise InputError(f"{path} is missing: the run is incomplete") from None


def _read_text(path):
    try:
        return readable_file(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path} is missing: the run is incomplete") from None
    except UnicodeDecodeError:
        raise DamagedFileError(f"{path} is damaged: it is not UTF-8 text") from None
