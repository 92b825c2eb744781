"""Find wrong elements of a gradient along one direction by bisection.

The residual of the direction d, slope minus sum(a * d) for the gradient a, is a sum over the elements. One more
difference, along d restricted to a part of the elements, gives the residual of that part. Bisection, which follows the
half with the larger residual, finds a wrong element after log2 n differences of two evaluations each. The element is
then removed, and the search is repeated on the remaining residual.
"""

import math

import numpy as np

from .numeric import contraction
from .report import WRONG

_SAMPLE = 12  # elements, to estimate how many are wrong


class Search:
    """Bisection along one direction; a flat index numbers the elements of all arguments consecutively.

    Args:
        entries: the direction, one array for each argument.
        gradients: the gradients to check, likewise.
        line_along: a function from such a list of arrays to the ``Line`` along them.
        ladder: the ``Ladder`` of the whole direction.
    """

    def __init__(self, entries, gradients, line_along, ladder):
        self._entries = entries
        self._gradients = gradients
        self._line_along = line_along
        self._starts = np.cumsum([0, *(part.size for part in entries)])
        self._found = set()
        errors = [
            abs(slope - ladder.slope) if math.isfinite(slope) else math.inf
            for slope in ladder.slopes
        ]
        self._step = ladder.steps[int(np.argmin(errors))]

    def residual(self, low, high):
        """Slope minus sum(a * d) over the flat indices ``low`` to ``high``, without the elements found before."""
        parts, expected = [], 0.0
        for entries, gradient, start in zip(
            self._entries, self._gradients, self._starts, strict=False
        ):
            part = np.zeros(entries.size)
            inside = slice(max(low - start, 0), max(high - start, 0))
            part[inside] = entries.reshape(-1)[inside]
            for flat in self._found:
                if 0 <= flat - start < entries.size:
                    part[flat - start] = 0.0
            parts.append(part.reshape(entries.shape))
            expected += contraction(gradient.reshape(-1)[inside], part[inside])[0]
        return self._line_along(parts).slopes(self._step)[0] - expected

    def descend(self, residual):
        """``(flat index, residual)`` of a wrong element, found by bisection."""
        low, high = 0, int(self._starts[-1])
        while high - low > 1:
            middle = (low + high) // 2
            left = self.residual(low, middle)
            if abs(left) >= abs(residual - left):
                high, residual = middle, left
            else:
                low, residual = middle, residual - left
        self._found.add(low)
        return low, residual

    def place(self, flat):
        """``(position of the argument, index in it)`` of a flat index."""
        position = int(np.searchsorted(self._starts, flat, side="right")) - 1
        shape = self._entries[position].shape
        index = np.unravel_index(flat - self._starts[position], shape)
        return position, tuple(int(i) for i in index)

    def sample(self, random, element_at):
        """The fraction of wrong elements in a random sample; ``element_at`` gives ``(Element, Ladder)``."""
        size = int(self._starts[-1])
        chosen = random.choice(size, min(_SAMPLE, size), replace=False)
        wrong = 0
        for flat in map(int, chosen):
            position, index = self.place(flat)
            element, _ = element_at(position, index)
            wrong += element is not None and element.verdict == WRONG
        return wrong / len(chosen)
