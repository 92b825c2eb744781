"""Digests that tell whether a file is what was written, and whether files belong together.

``config.json`` and ``state.json`` each carry the digest of all else that is in them. A state's file also holds the
digests of what belongs to the state: its arrays, the vocabulary, the metrics up to then, and the settings that make
the run what it is. Checking ``state.json`` therefore checks everything.

Runs written before there were digests have none, and are read with one warning.
"""

import hashlib
import json

from ...data.json_text import parse_json

DIGEST = "sha256"  # the name of the digest in a file
# What a state held before there were digests.
_UNSEALED = {
    *("step", "best_loss", "best_step", "smoothed_loss", "seconds", "looked_at"),
    *("corpus", "random", "optimizer"),
}


class RunWarning(UserWarning):
    """Something about a run that its user should know; the command shows it as one line."""


def seal(values):
    """``values`` (a dict that JSON can hold) with their digest.

    >>> check_seal(seal({"step": 3}))
    ({'step': 3}, True)
    """
    return {**values, DIGEST: digest_of(values)}


def check_seal(values):
    """What ``seal`` was given, and whether it was sealed at all.

    Raises:
        ValueError: where the digest is not that of the values.
    """
    values = dict(values)
    if DIGEST not in values:
        return values, False
    digest = values.pop(DIGEST)
    try:
        whole = digest == digest_of(values)
    except RecursionError:
        whole = False
    if not whole:
        raise ValueError("its digest differs")
    return values, True


def digest_of(value):
    """The sha256 of what JSON can hold, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def open_state(content):
    """The values of a ``state.json`` and what it belongs to; None for one without a digest.

    Raises:
        ValueError: where it is damaged.
    """
    values = parse_json(content.decode("utf-8"), "the file")
    if not isinstance(values, dict) or "step" not in values:
        raise ValueError("no step in it")
    values, sealed = check_seal(values)
    if sealed:
        if not isinstance(values.get("belongs_to"), dict):
            raise ValueError("it does not say what it belongs to")
        return values, values.pop("belongs_to")
    if not values.keys() <= _UNSEALED:
        raise ValueError("no digest in it")
    step = values["step"]
    if not isinstance(step, int) or isinstance(step, bool) or step < 0:
        raise ValueError("its step is not a whole number")
    return values, None
