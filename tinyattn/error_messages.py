"""Parts of messages: values truncated if long, escaped control characters, and suggestions of similar names."""

import difflib

LONGEST = 80  # longest text repeated in full [characters]

# Control characters (C0, DEL, C1) except newline and tab, and the Unicode bidirectional embeddings, overrides and
# isolates, which reorder the rest of a line.
_CONTROLS = {*range(0x00, 0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_ESCAPES = {code: repr(chr(code))[1:-1] for code in _CONTROLS - {ord("\n"), ord("\t")}}


def shown(value):
    """``repr`` of a value, truncated if long; large integers as their number of digits.

    >>> shown("a"), shown(1.5), shown(10**30)
    ("'a'", '1.5', 'a whole number of 31 digits')
    >>> shown("a" * 5000)[-40:]
    'aaaaaaaaaaaaaaaaaa... (5,002 characters)'
    """
    if isinstance(value, int) and abs(value) >= 10**20:
        digits = int(abs(value).bit_length() * 0.30102999566398120)  # log10 of 2
        return f"a whole number of {digits + (abs(value) >= 10**digits)} digits"
    return shortened(repr(value))


def shortened(text):
    """``text``, truncated to its beginning and length if long."""
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - 20]}... ({len(text):,} characters)"


def visible(text):
    r"""Replace each control character except newline and tab by an escape.

    >>> print(visible("a\x1b[2Jb\r\n\tc\x9b"))
    a\x1b[2Jb\r
        c\x9b
    """
    return text.translate(_ESCAPES)


def did_you_mean(word, names, cutoff=0.6):
    """``"did you mean a or b?"`` with up to three of the ``nearest`` names, or ``""`` if there are none.

    >>> did_you_mean("sofmax", ["softmax", "log_softmax", "exp"])
    'did you mean softmax or log_softmax?'
    """
    *others, last = nearest(word, names, cutoff)[:3] or [""]
    return f"did you mean {' or '.join(filter(None, [', '.join(others), last]))}?" if last else ""


def nearest(word, names, cutoff=0.6):
    """The ``names`` similar to ``word``, the most likely first.

    A name is similar if ``word`` consists of the initials of its parts, is a prefix of it, or is a close match.

    Args:
        word: the given name.
        names: the valid names; case is ignored, and hyphens and underscores are equal.
        cutoff: smallest similarity of a close match, from 0 to 1, as in ``difflib.get_close_matches``.

    >>> nearest("lr", ["layers", "learning-rate"]), nearest("temp", ["temperature"])
    (['learning-rate'], ['temperature'])
    """
    word = _normalized(word)
    by_key = {_normalized(name): name for name in names}
    initials = [name for key, name in by_key.items() if "-" in key and word == _initials(key)]
    prefixed = [name for key, name in by_key.items() if len(word) > 1 and key.startswith(word)]
    close = difflib.get_close_matches(word, by_key, n=3, cutoff=cutoff)
    return list(dict.fromkeys([*initials, *prefixed, *(by_key[key] for key in close)]))


def _normalized(name):
    return name.lower().replace("_", "-")


def _initials(name):
    return "".join(part[:1] for part in name.split("-"))
