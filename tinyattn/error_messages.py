"""What messages about a user's value are made of: the value, not too long, and names that were perhaps meant."""

import difflib

LONGEST = 80  # characters of a value that a message repeats


def shown(value):
    """A value as a message repeats it: what Python writes for it, or the beginning of that where it is long.

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
    """``text``, or its beginning and its length where it is long."""
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - 20]}... ({len(text):,} characters)"


def did_you_mean(word, names, cutoff=0.6):
    """``"did you mean a or b?"``: up to three of the ``nearest`` names, or ``""`` where none is near.

    >>> did_you_mean("sofmax", ["softmax", "log_softmax", "exp"])
    'did you mean softmax or log_softmax?'
    """
    *others, last = nearest(word, names, cutoff)[:3] or [""]
    return f"did you mean {' or '.join(filter(None, [', '.join(others), last]))}?" if last else ""


def nearest(word, names, cutoff=0.6):
    """Those of ``names`` that ``word`` may be meant for, the likeliest first.

    A name is near where ``word`` is the first letters of its parts, or begins it, or is spelt alike.

    Args:
        word: what was given.
        names: what there is; upper and lower case, hyphen and underscore are the same.
        cutoff: how much alike is near, from 0 to 1, as ``difflib.get_close_matches`` has it.

    >>> nearest("lr", ["layers", "learning-rate"]), nearest("temp", ["temperature"])
    (['learning-rate'], ['temperature'])
    """
    word = _plain(word)
    by_plain = {_plain(name): name for name in names}
    initials = [n for p, n in by_plain.items() if "-" in p and word == _initials(p)]
    begun = [n for p, n in by_plain.items() if len(word) > 1 and p.startswith(word)]
    alike = difflib.get_close_matches(word, by_plain, n=3, cutoff=cutoff)
    return list(dict.fromkeys([*initials, *begun, *(by_plain[p] for p in alike)]))


def _plain(name):
    return name.lower().replace("_", "-")


def _initials(name):
    return "".join(part[:1] for part in name.split("-"))
