"""Mutants that compute the same as the original, each with the reason.

A key is the name of the function and the first line of the statement, before and after. Where one reason holds for
many, it is a pattern.
"""

import re

EQUIVALENT = {}

PATTERNS = {}

_COMPILED = [(re.compile(pattern), reason) for pattern, reason in PATTERNS.items()]


def reason_for(key):
    """Why a mutant is equivalent, or None if no one says it is."""
    if key in EQUIVALENT:
        return EQUIVALENT[key]
    for pattern, reason in _COMPILED:
        if pattern.fullmatch(key):
            return reason
    return None
