"""Detection of repeated parts in a recorded graph, such as the blocks of a transformer."""

import re
from dataclasses import dataclass


@dataclass
class Fold:
    """Parts of a graph that repeat the part named ``like``: their ``title`` and ``nodes``."""

    title: str
    nodes: list
    like: str


def repeated_parts(nodes, names):
    """Find the parts that repeat an earlier part; returns a list of ``Fold``.

    Parts are identified by parameter names of the form ``PREFIX.NUMBER.REST``, as in a list of modules. An operation
    belongs to the part with the highest number among the parts it depends on. Two parts are equal if they have the same
    operations on the same shapes in the same order. The last part may be followed by other operations.

    Args:
        nodes: nodes of the graph, in recording order.
        names: dict of ``id(tensor)`` to name, for the leaves of the graph.
    """
    folds = []
    for prefix in dict.fromkeys(p for p, _ in map(_place, names.values()) if p):
        parts = {}
        numbers = {}
        for node in nodes:
            number = max(
                (_number(parent, prefix, names, numbers) for parent in node.parents), default=-1
            )
            numbers[id(node)] = number
            parts.setdefault(number, []).append(node)
        parts.pop(-1, None)
        if len(parts) < 2:
            continue
        first, *rest = sorted(parts)
        pattern = list(map(_signature, parts[first]))
        alike = []
        for number in rest:
            if list(map(_signature, parts[number][: len(pattern)])) != pattern:
                break
            alike.append(number)
        if not alike:
            continue
        title = f"{prefix}.{alike[0]}" + (f" to {prefix}.{alike[-1]}" if alike[1:] else "")
        folded = [node for number in alike for node in parts[number][: len(pattern)]]
        folds.append(Fold(title, folded, f"{prefix}.{first}"))
    return folds


def _place(name):
    match = re.match(r"(.*?)\.(\d+)\.", name)
    return (match[1], int(match[2])) if match else (None, -1)


def _number(parent, prefix, names, numbers):
    """Number of the part that a node's parent belongs to, -1 for none."""
    if id(parent) in numbers:
        return numbers[id(parent)]
    found, number = _place(names.get(id(parent), ""))
    return number if found == prefix else -1


def _signature(node):
    return node.primitive.name, node.shape
