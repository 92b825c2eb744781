"""The three files of a saved state, and the manifest that ties them to each other and to the run.

``state.json`` contains the manifest: digests of the arrays, of the vocabulary and of the metrics so far, and the
options that may not change on resumption. It carries its own digest, so that verifying ``state.json`` verifies all.

States saved before there were digests have no manifest; they are read with a warning.
"""

import json
from dataclasses import dataclass

from ...data.json_text import parse_json
from ..config import current_names, flatten, identity_of, option
from .arrays import SavedArrays
from .digests import add_digest, verify_digest
from .errors import DamagedFileError

STATES = ("best", "last")
MODEL, OPTIMIZER, STATE = "model.safetensors", "optimizer.safetensors", "state.json"
MANIFEST = "belongs_to"  # the key of the manifest in state.json

# The keys of a state saved before there were digests.
_KEYS_WITHOUT_MANIFEST = {
    *("step", "best_loss", "best_step", "smoothed_loss", "seconds", "looked_at"),
    *("corpus", "random", "optimizer"),
}


@dataclass(frozen=True)
class SavedState:
    """A state as it was saved.

    Attributes:
        values: dict of the values in ``state.json``: step, random states, losses.
        model: dict of parameter name to array.
        optimizer: dict of name to array, or None if it was not requested.
        metrics: length and digest of the metrics at that step (``Metrics.mark``), or None.
    """

    values: dict
    model: dict
    optimizer: dict | None
    metrics: dict | None


def run_manifest(config, vocabulary):
    """The part of the manifest that all states of a run share."""
    return {"settings": identity_of(config), "vocabulary": vocabulary.identity}


def state_files(model, optimizer, values, manifest):
    """The files of a state, a dict of name to content; arguments as for ``RunDirectory.write_states``."""
    files = {MODEL: SavedArrays(model), OPTIMIZER: SavedArrays(optimizer)}
    digests = {name: content.digest for name, content in files.items()}
    json.dumps(values, allow_nan=False)  # raises for values that are not JSON
    values = add_digest({**values, MANIFEST: {**manifest, **digests}})
    return {**files, STATE: json.dumps(values, indent=1) + "\n"}


def parse_state(content):
    """The values and the manifest in the bytes of a ``state.json``; the manifest is None if there is no digest.

    Raises:
        ValueError: if the file is damaged.
    """
    values = parse_json(content.decode("utf-8"), "the file")
    if not isinstance(values, dict) or "step" not in values:
        raise ValueError("it has no step")
    values, has_digest = verify_digest(values)
    if has_digest:
        if not isinstance(values.get(MANIFEST), dict):
            raise ValueError("it has no manifest")
        return values, values.pop(MANIFEST)
    if not values.keys() <= _KEYS_WITHOUT_MANIFEST:
        raise ValueError("it has no digest")
    step = values["step"]
    if not isinstance(step, int) or isinstance(step, bool) or step < 0:
        raise ValueError("its step is not a whole number")
    return values, None


def evaluated_step(state):
    """The ``evaluated_step`` of a saved state; runs of earlier versions call it ``looked_at``, or have none."""
    return state.get("evaluated_step", state.get("looked_at", state["step"]))


def check_manifest(manifest, config, vocabulary, state_path, config_path, vocabulary_path):
    """Compare a state's manifest with the run's configuration and vocabulary.

    Only options in the manifest are compared: one that was added to tinyattn later has its default in the run.

    Raises:
        DamagedFileError: if they differ.
    """
    given = flatten(config)
    for name, value in current_names(manifest["settings"]).items():
        if given.get(name, value) != value:
            raise DamagedFileError(
                f"{config_path} has {option(name)} {given[name]!r}, and {state_path} belongs to a run "
                f"with {value!r}: undo the change"
            )
    if manifest["vocabulary"] != vocabulary.identity:
        raise DamagedFileError(
            f"{vocabulary_path} is damaged or was changed: {state_path} belongs to another vocabulary"
        )
