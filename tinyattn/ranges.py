"""Numeric types with a range for the fields of dataclasses, and their validation."""

import dataclasses
import math
import numbers
import types
import typing
from dataclasses import dataclass
from typing import Annotated, Literal

from .error_messages import shown


@dataclass(frozen=True)
class Range:
    """An interval of valid values from ``low`` to ``high``, closed unless ``open_low`` or ``open_high``."""

    low: float
    high: float = float("inf")
    open_low: bool = False
    open_high: bool = False

    def __contains__(self, value):
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return bool(above and below) and value != float("inf")

    def requirement(self, value):
        """Describe the bound that ``value`` violates, or both bounds if ``high`` is small."""
        low = f"{'above' if self.open_low else 'at least'} {self.low:,}"
        high = f"{'below' if self.open_high else 'at most'} {self.high:,}"
        if self.high <= 256:
            return f"{low} and {high}"
        return high if self.high < value < float("inf") else low


# Larger counts are not practical on any machine, and would overflow integer types elsewhere.
LARGEST_COUNT = 10**9

Count = Annotated[int, Range(1, LARGEST_COUNT)]
CountOrZero = Annotated[int, Range(0, LARGEST_COUNT)]
LayerCount = Annotated[int, Range(1, 1000)]
FileCount = Annotated[int, Range(0, 10_000)]
Seed = Annotated[int, Range(0, 2**64 - 1)]
WorkerCount = Annotated[int, Range(1, 256)]
Share = Annotated[float, Range(0, 1)]
Probability = Annotated[float, Range(0, 1, open_high=True)]
Positive = Annotated[float, Range(0, open_low=True)]
NotNegative = Annotated[float, Range(0)]
Megabytes = Annotated[float, Range(0, 10_000, open_low=True)]


def check_ranges(settings, spell=str):
    """Validate every field of a dataclass against its annotation.

    Args:
        settings: an instance of a dataclass.
        spell: function that formats a field's name in the error message.

    Raises:
        ValueError: with the field's name, its valid values, and the given value.

    >>> @dataclass
    ... class Settings:
    ...     layers: Count = 4
    >>> check_ranges(Settings(layers=0))
    Traceback (most recent call last):
    ValueError: layers must be at least 1, given 0
    """
    hints = typing.get_type_hints(type(settings), include_extras=True)
    for one in dataclasses.fields(settings):
        _check_value(spell(one.name), getattr(settings, one.name), hints[one.name])


def _check_value(name, value, hint):
    expected = []
    for kind, notes in _alternatives(hint):
        if kind is type(None):
            if value is None:
                return
            continue
        if typing.get_origin(kind) is Literal:
            choices = typing.get_args(kind)
            if any(type(value) is type(choice) and value == choice for choice in choices):
                return
            expected.append("one of " + ", ".join(map(str, choices)))
            continue
        if typing.get_origin(kind) is tuple:
            if isinstance(value, list | tuple) and value and all(isinstance(v, str) for v in value):
                return
            expected.append("a list of them")
            continue
        expected.append(_KINDS[kind])
        if _is_a(value, kind):
            limits = next((note for note in notes if isinstance(note, Range)), None)
            number = as_float(value) if kind is float else value
            if limits is None or number in limits:
                return
            infinite = kind is float and not math.isfinite(number)
            wanted = limits.requirement(number)
            expected[-1] = f"a finite number, {wanted}" if infinite else wanted
    raise ValueError(f"{name} must be {' or '.join(expected)}, given {shown(value)}")


def as_float(number):
    """Convert ``number`` to a float; integers that overflow become infinite."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


_KINDS = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    dict: "names and values",
}


def _alternatives(hint, notes=()):
    """Yield each type of a union with its metadata, which may include that of the command line."""
    if typing.get_origin(hint) is Annotated:
        inner, *more = typing.get_args(hint)
        yield from _alternatives(inner, (*notes, *more))
    elif typing.get_origin(hint) in (typing.Union, types.UnionType):
        for one in typing.get_args(hint):
            yield from _alternatives(one, notes)
    else:
        yield hint, notes


def _is_a(value, kind):
    """Whether ``value`` has the type ``kind``; NumPy numbers count as numbers, booleans do not."""
    kinds = {int: numbers.Integral, float: numbers.Real}
    return isinstance(value, kinds.get(kind, kind)) and (
        kind is bool or not isinstance(value, bool)
    )
