"""JSON that a user or a damaged disk may have changed: an InputError, whatever is wrong with it."""

import json

from .errors import InputError


def parse_json(text, name):
    """The value of JSON ``text``.

    Args:
        text: a string.
        name: what to call it in a message.

    Raises:
        InputError: where it is not JSON, is nested too deeply, or holds a number of thousands of digits.

    >>> parse_json('{"steps": 5}', "options.json")
    {'steps': 5}
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"{name} is not JSON ({error})") from None
    except RecursionError:
        raise InputError(f"{name} is not JSON that can be read (nested too deeply)") from None
