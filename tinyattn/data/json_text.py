"""Parse JSON from untrusted files: any defect is an InputError."""

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
