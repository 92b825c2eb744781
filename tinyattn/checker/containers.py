"""Flatten nested containers into named leaves, and rebuild them with other leaves (pytrees)."""

import dataclasses
from collections.abc import Mapping

from ..backend import listed


def flatten(value, name):
    """The leaves of nested lists, tuples, mappings and dataclasses, each with the expression that leads to it.

    >>> flatten({"a": [1, 2], "b": 3}, "x")
    [("x['a'][0]", 1), ("x['a'][1]", 2), ("x['b']", 3)]
    """
    leaves, stack = [], [(name, value)]
    while stack:
        name, value = stack.pop()
        children = _children(value, name)
        if children is None:
            leaves.append((name, value))
        else:
            stack.extend(reversed(children))
    return leaves


def _children(value, name):
    if isinstance(value, Mapping):
        return [(f"{name}[{key!r}]", child) for key, child in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(f"{name}.{field}", getattr(value, field)) for field in value._fields]
    if isinstance(value, (list, tuple)):
        return [(f"{name}[{position}]", child) for position, child in enumerate(value)]
    if isinstance(value, (set, frozenset)):
        listed(value, name)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return [(f"{name}.{field.name}", getattr(value, field.name)) for field in fields]
    return None


def rebuild(value, leaves):
    """The same containers with other leaves, taken in order from the iterator ``leaves``.

    >>> rebuild({"a": [1, 2], "b": 3}, iter("xyz"))
    {'a': ['x', 'y'], 'b': 'z'}
    """
    if isinstance(value, Mapping):
        rebuilt = {key: rebuild(child, leaves) for key, child in value.items()}
        return rebuilt if type(value) is dict else type(value)(rebuilt)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[rebuild(child, leaves) for child in value])
    if isinstance(value, (list, tuple)):
        return type(value)([rebuild(child, leaves) for child in value])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        changes = {field.name: rebuild(getattr(value, field.name), leaves) for field in fields}
        return dataclasses.replace(value, **changes)
    return next(leaves)
