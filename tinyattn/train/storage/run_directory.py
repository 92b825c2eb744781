"""The directory a training run leaves behind.

    RUN/config.json             every option, as train/config.py writes it
    RUN/vocab.json              the characters in the order of their ids
    RUN/best/, RUN/last/        model.safetensors, optimizer.safetensors, state.json
    RUN/snapshots/              step-000100.safetensors, ...: the model along the way
    RUN/metrics.jsonl           one object a line
    RUN/loss.png                the loss curve

The three files of a state are exchanged together (storage/atomic.py), so that they always belong together.
"""

import contextlib
import json
import os
import shlex
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

from ...data import CharVocabulary, InputError
from ..config import config_to_json, make_config, options_from_json
from .arrays import DamagedFileError, arrays_from_bytes, arrays_to_bytes
from .atomic import whole_directory, write_atomic, write_directory_atomic

STATES = ("best", "last")


class RunDirectory:
    """A run on the disk; nothing is read or written before it is asked for."""

    def __init__(self, path):
        self.path = Path(path)

    @classmethod
    def create(cls, path, config, vocabulary):
        """Begin a run in ``path``, which must not hold one.

        Raises:
            InputError: where ``path`` holds a run or is a file.
        """
        run = cls(path)
        if run.path.exists() and not run.path.is_dir():
            raise InputError(f"--out {path} is a file: give a directory for the run")
        if run.holds_run():
            raise InputError(
                f"{path} already holds a run: go on with it (--resume {shlex.quote(str(path))}), "
                f"or give another directory with --out"
            )
        run.path.mkdir(parents=True, exist_ok=True)
        write_atomic(run.path / "vocab.json", vocabulary.to_json())
        run.write_config(config)
        return run

    @classmethod
    def open(cls, path):
        """The run in ``path``.

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

    @contextlib.contextmanager
    def exclusive(self):
        """Let no other process train this run in a ``with`` block, as far as the file system has locks.

        Raises:
            InputError: where another process trains it.
        """
        if not fcntl:
            yield
            return
        descriptor = os.open(self.path, os.O_RDONLY)
        _held.add(descriptor)
        try:
            _lock(descriptor, self.path)
            yield
        finally:
            _held.discard(descriptor)
            os.close(descriptor)

    def holds_run(self):
        """Whether a state was saved here; what was killed before its first one can be begun again."""
        return any(map(self.has_state, STATES))

    def write_config(self, config):
        """Write ``config.json``."""
        write_atomic(self.path / "config.json", config_to_json(config))

    def config(self):
        """The run's configuration (``TrainConfig``)."""
        path = self.path / "config.json"
        return make_config(options_from_json(_read_text(path), str(path)))

    def vocabulary(self):
        """The run's vocabulary, characters in the order of their ids."""
        path = self.path / "vocab.json"
        try:
            return CharVocabulary.from_json(_read_text(path))
        except DamagedFileError:
            raise
        except InputError as error:
            if not path.is_file():
                raise
            raise DamagedFileError(f"{path} is damaged: {error}") from None

    def write_states(self, names, model, optimizer, state):
        """Write one state under each of ``names`` (of ``STATES``), whole or not at all.

        Args:
            names: for instance ``("last", "best")``.
            model: dict of parameter name to NumPy array.
            optimizer: dict of name to NumPy array.
            state: what JSON can hold: step, random states, losses.
        """
        contents = {
            "model.safetensors": arrays_to_bytes(model),
            "optimizer.safetensors": arrays_to_bytes(optimizer),
            "state.json": json.dumps(state, indent=1, allow_nan=False) + "\n",
        }
        for name in names:
            write_directory_atomic(self.path / name, contents)

    def read_model(self, name="best"):
        """The model's arrays of a state, checked for damage."""
        return self._read_arrays(name, "model.safetensors")

    def read_optimizer(self, name="last"):
        """The optimiser's arrays of a state, checked for damage."""
        return self._read_arrays(name, "optimizer.safetensors")

    def read_state(self, name="last"):
        """The rest of a state: step, random states, losses."""
        path = self._state_path(name, "state.json")
        try:
            state = json.loads(_read_text(path))
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise DamagedFileError(f"{path} is damaged ({error}): {self._advice(name)}") from None
        if not isinstance(state, dict) or "step" not in state:
            raise DamagedFileError(f"{path} is damaged (no step in it): {self._advice(name)}")
        return state

    def write_snapshot(self, step, model):
        """Keep the model's arrays at ``step``."""
        folder = self.path / "snapshots"
        folder.mkdir(exist_ok=True)
        write_atomic(folder / f"step-{step:06d}.safetensors", arrays_to_bytes(model))

    def snapshot_steps(self):
        """The steps of the snapshots there are, in order."""
        names = (path.stem for path in (self.path / "snapshots").glob("step-*.safetensors"))
        return sorted(int(name.removeprefix("step-")) for name in names)

    def read_snapshot(self, step):
        """The model's arrays at ``step``."""
        return _read_arrays(self.path / "snapshots" / f"step-{step:06d}.safetensors", "")

    def has_state(self, name):
        """Whether there is a state of that name."""
        return self._state_directory(name) is not None

    def _state_directory(self, name):
        return whole_directory(self.path / name)

    def _state_path(self, name, file):
        directory = self._state_directory(name)
        if directory is None:
            there = [one for one in STATES if self._state_directory(one)]
            hint = (
                f"it has {there[0]}"
                if there
                else f"it stopped before anything was saved; begin it again with "
                f"tinyattn train --config {shlex.quote(f'{self.path}/config.json')} --out {shlex.quote(str(self.path))}"
            )
            raise InputError(f"the run {self.path} has no state {name!r}: {hint}")
        return directory / file

    def _read_arrays(self, name, file):
        return _read_arrays(self._state_path(name, file), self._advice(name))

    def _advice(self, name):
        others = [one for one in STATES if one != name and self._state_directory(one)]
        return f"the state {others[0]!r} may be whole" if others else "there is no other state"


def _read_text(path):
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path} is missing: the run is not complete") from None
    except UnicodeDecodeError:
        raise DamagedFileError(f"{path} is damaged: it is not UTF-8 text") from None


def _read_arrays(path, advice):
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path} is missing: the run is not complete") from None
    return arrays_from_bytes(content, str(path), advice)


def check_arrays(expected, arrays, name):
    """Refuse ``arrays`` whose names or shapes are not those ``expected``, before anything is changed.

    Args:
        expected: dict of name to shape.
        arrays: dict of name to array.
        name: what to call the arrays in a message.

    Raises:
        InputError: with the first tensor that is missing, unknown or of another shape.
    """
    for tensor, shape in expected.items():
        if tensor not in arrays:
            raise InputError(f"{name} has no tensor {tensor!r}: it belongs to another model")
        if tuple(arrays[tensor].shape) != tuple(shape):
            raise InputError(
                f"{name} has {tensor!r} of shape {tuple(arrays[tensor].shape)}, and the model's is "
                f"{tuple(shape)}: it belongs to another model"
            )
    unknown = sorted(arrays.keys() - expected.keys())
    if unknown:
        raise InputError(f"{name} has a tensor {unknown[0]!r} that the model has not")


_held = set()  # descriptors whose lock ends when they are closed, in forked processes too


def _lock(descriptor, path):
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(
            f"another process is training the run {path}: wait for it, or give another directory with --out"
        ) from None
    except OSError:  # a file system without locks
        pass


def _release_in_copy():
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


if fcntl:
    os.register_at_fork(after_in_child=_release_in_copy)
