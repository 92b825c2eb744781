"""SHA-256 digests of JSON values, stored in the same JSON object."""

from ...data.json_text import digest_of

DIGEST = "sha256"  # the key of the digest


def add_digest(values):
    """``values``, a dict that JSON can represent, with their digest.

    >>> verify_digest(add_digest({"step": 3}))
    ({'step': 3}, True)
    """
    return {**values, DIGEST: digest_of(values)}


def verify_digest(values):
    """Split ``values`` into a dict without the digest and whether there was a digest.

    Raises:
        ValueError: if the digest does not match the values.
    """
    values = dict(values)
    if DIGEST not in values:
        return values, False
    digest = values.pop(DIGEST)
    try:
        matches = digest == digest_of(values)
    except RecursionError:
        matches = False
    if not matches:
        raise ValueError("its digest does not match")
    return values, True
