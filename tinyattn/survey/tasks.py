"""The list of all checks of the survey."""

import functools

from ..autograd import PRIMITIVES
from .blocks import blocks, check_block
from .primitives import check_primitive, versions


def tasks(device=None, order=2, seed=0):
    """``(name, function that returns a Row)`` for each primitive by rule and by kernel, then for each block.

    >>> [task().version for name, task in tasks(order=1) if name == "gelu"]
    ['rule', 'kernel']
    """
    primitives = [
        (name, functools.partial(check_primitive, name, version, device, order, seed))
        for name in sorted(PRIMITIVES)
        for version in versions(name, device)
    ]
    return primitives + [
        (name, functools.partial(check_block, name, device, order, seed)) for name in blocks()
    ]
