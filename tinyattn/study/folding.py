"""Which parts of a recorded graph repeat each other, as the blocks of a transformer do."""

import re
from dataclasses import dataclass


@dataclass
class Fold:
    """Parts of a graph that do what the part ``like`` does: ``title``, their ``nodes``, and ``like``'s name."""

    title: str
    nodes: list
    like: str


def repeated_parts(nodes, names):
    """The parts that repeat an earlier one, as a list of ``Fold``.

    Parts are told by the names of their parameters, ``PREFIX.NUMBER.REST``, which a list of modules gives. An
    operation belongs to the part with the highest number among all it was computed from. Parts are alike where they
    have the same operations on the same shapes in the same order; after the last one other operations may follow.

    Args:
        nodes: of the graph, in the order of their recording.
        names: dict of ``id(tensor)`` to name, for the graph's leaves.
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
    """The part that a node's parent belongs to, -1 for none."""
    if id(parent) in numbers:
        return numbers[id(parent)]
    found, number = _place(names.get(id(parent), ""))
    return number if found == prefix else -1


def _signature(node):
    return node.primitive.name, node.shape
