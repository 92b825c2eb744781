"""Digests that tell whether a file is what was written, and whether files belong together.

``config.json`` and ``state.json`` each carry the digest of all else that is in them. A state's file also holds the
digests of what belongs to the state: its arrays, the vocabulary, the metrics up to then, and the settings that make
the run what it is. Checking ``state.json`` therefore checks everything.

Runs written before there were digests have none, and are read with one warning.
"""

import hashlib
import json

DIGEST = "sha256"  # the name of the digest in a file


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
