"""JSON values: parse untrusted text, where any defect is an InputError, and digests."""

import hashlib
import json

from .errors import InputError


def parse_json(text, name):
    """Parse JSON ``text``.

    Args:
        text: a string.
        name: its name in error messages.

    Raises:
        InputError: if it is not JSON, is nested too deeply, or contains a number of thousands of digits.

    >>> parse_json('{"steps": 5}', "options.json")
    {'steps': 5}
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"{name} is not JSON ({error})") from None
    except RecursionError:
        raise InputError(f"{name} is not JSON (nested too deeply)") from None


def digest_of(value):
    """The SHA-256 digest of a JSON value, in hexadecimal digits; the order of keys does not matter.

    >>> digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
