"""The slope at a point with an error bar, from difference quotients over a sequence of steps: the ladder.

Richardson extrapolation of the central differences D(h), D(h/4), D(h/16), ... removes their truncation error term by
term: its series has even powers only, so that with T[k][0] = D(h / 4^k)

    T[k][c] = (16^c T[k][c-1] - T[k-1][c-1]) / (16^c - 1)

has an error of order h^(2c+2). Large steps can then be used, which have small rounding errors.

The error bar of an entry is the sum of two estimates. Truncation: the largest difference between the entry and its
three neighbors, T[k][c-1], T[k-1][c-1] and the entry below, T[k+1][c]. Since an entry is far more accurate than the
first two, this is an upper bound, unless neighbors agree by chance. Rounding: twice that of D at the smaller step,
which the entry multiplies by at most 1.2. The result is the entry with the smallest error bar that is consistent with
the difference quotients at all smaller steps, each within its own rounding error. That rejects false plateaus: a
function that is flat at the scale of the large steps and not at the point.

Source: C. J. F. Ridders, "Accurate computation of F'(x) and F'(x) F''(x)" (1982), eq. 5, for the table and the
truncation estimate.
"""

import math

from .report import Ladder

RATIO = 4.0
_COLUMNS = 6
_FAR = (2.0**2, 2.0**10, 2.0**20)


class RichardsonTable:
    """The extrapolation table T of one line: ``step`` adds a row, ``best`` returns the best entry so far.

    >>> import numpy as np
    >>> from tinyattn.checker.numeric import Line
    >>> table = RichardsonTable(Line(lambda t: [np.sin(t)], [np.array(1.0)]))
    >>> for h in (0.25, 0.0625, 0.015625, 0.00390625):
    ...     table.step(h)
    >>> slope, error_bar, step = table.best()
    >>> abs(slope - 1) < 1e-14, error_bar < 1e-10
    (True, True)
    """

    def __init__(self, line):
        self._line = line
        self._table = []
        self._rounding = []
        self.ladder = Ladder()

    def step(self, h):
        """Add the row of the step ``h``, a quarter of the previous one. A row that is not finite restarts the table."""
        central, left, right, rounding = self._line.slopes(h)
        ladder = self.ladder
        for values, value in zip(
            (ladder.steps, ladder.slopes, ladder.left, ladder.right, ladder.rounding),
            (h, central, left, right, rounding),
            strict=True,
        ):
            values.append(value)
        if not math.isfinite(central):
            self._table.clear()
            self._rounding.clear()
            return
        row = [central]
        above = self._table[-1] if self._table else []
        for column, entry in enumerate(above[:_COLUMNS], start=1):
            weight = RATIO ** (2 * column)
            row.append((weight * row[-1] - entry) / (weight - 1))
        self._table.append(row)
        self._rounding.append(rounding)

    def best(self):
        """``(slope, error bar, step)`` of the best entry; the error bar is infinite if no entry is consistent."""
        candidates = [
            (self._bar(k, column), k, column)
            for k in range(1, len(self._table))
            for column in range(1, len(self._table[k]))
        ]
        finite = len(self._table)
        for bar, k, column in sorted(candidates):
            entry = self._table[k][column]
            if self._consistent(entry, bar, k):
                return entry, bar, self.ladder.steps[k - finite]
        if not self._table:
            return math.nan, math.inf, 0.0
        return self._table[-1][0], math.inf, self.ladder.steps[-1]

    def finish(self):
        """The ``Ladder``, with the best entry written into it."""
        self.ladder.slope, self.ladder.error_bar, self.ladder.step = self.best()
        return self.ladder

    def _bar(self, k, column):
        entry = self._table[k][column]
        truncation = max(
            abs(entry - self._table[k][column - 1]), abs(entry - self._table[k - 1][column - 1])
        )
        if k + 1 < len(self._table) and column < len(self._table[k + 1]):
            below = abs(entry - self._table[k + 1][column]) - 4 * self._rounding[k + 1]
            truncation = max(truncation, below)
        return truncation + 2 * self._rounding[k]

    def _consistent(self, entry, bar, k):
        """Whether the difference quotients at all smaller steps are within their truncation and rounding errors."""
        truncation = abs(self._table[k][0] - entry)
        return all(
            abs(row[0] - entry) <= bar + truncation + 10 * rounding
            for row, rounding in zip(self._table[k + 1 :], self._rounding[k + 1 :], strict=True)
        )


def steps_between(largest, smallest):
    """Steps from ``largest`` down to ``smallest``, each a quarter of the previous one.

    >>> list(steps_between(1.0, 0.05))
    [1.0, 0.25, 0.0625]
    """
    h = largest
    while h >= smallest:
        yield h
        h /= RATIO


def slope_of(line, largest=0.25, smallest=1e-7, accepts=None):
    """The ``Ladder`` of a line; stops early if ``accepts(slope, error bar)`` is true, from the third row on.

    >>> import numpy as np
    >>> from tinyattn.checker.numeric import Line
    >>> ladder = slope_of(Line(lambda t: [np.exp(t)], [np.array(1.0)]))
    >>> abs(ladder.slope - 1) < ladder.error_bar < 1e-12
    True
    """
    table = RichardsonTable(line)
    for row, h in enumerate(steps_between(largest, smallest)):
        table.step(h)
        if accepts is not None and row >= 2:
            slope, bar, _ = table.best()
            if accepts(slope, bar):
                break
    return table.finish()


def widened_bar(line, ladder, size=1.0):
    """The error bar of a ladder with the rounding of all outputs that depend on what the line moves.

    An output may depend on it so little at the point that no step of the ladder changes it: its change is lost in its
    rounding, as that of the largest probability of a softmax. At distances of many ``size`` it does change.
    """
    rounding = line.reach([sign * size * far for far in _FAR for sign in (1, -1)])
    return max(ladder.error_bar, rounding / ladder.step)


def kink_at(ladder):
    """The one-sided slopes and their error ``(left, right, error)`` if the function has a kink or a jump, else None.

    Where a function is smooth, the one-sided differences differ by h f'', in proportion to the step. At a kink this gap
    does not shrink, and every number between the two slopes is a subgradient, which an operation may return by
    convention. At a jump there is no slope: the central difference grows as the step shrinks, and the returned error is
    infinite. The error is infinite too if the function is not finite on both sides. A kink near the point does not
    count: the gap vanishes for steps smaller than its distance.
    """
    steps = range(len(ladder.steps))
    if not any(math.isfinite(slope) for slope in ladder.slopes):
        return ladder.left[-1], ladder.right[-1], math.inf
    gaps = [abs(right - left) for left, right in zip(ladder.left, ladder.right, strict=True)]
    visible = [k for k in steps if 2 * ladder.rounding[k] <= 0.01 * gaps[k] < math.inf]
    jumps = [k for k in steps if ladder.rounding[k] <= 0.01 * abs(ladder.slopes[k])][-3:]
    if len(jumps) == 3:
        first, second, third = (abs(ladder.slopes[k]) for k in jumps)
        if third > 3 * second > 9 * first:
            return ladder.left[jumps[-1]], ladder.right[jumps[-1]], math.inf
    if len(visible) < 2 or visible[-1] == 0:
        return None
    last = visible[-1]
    gap, before = gaps[last], gaps[last - 1]
    is_near = any(
        2 * ladder.rounding[k] <= 0.01 * gap and gaps[k] < 0.5 * gap for k in steps if k > last
    )
    if is_near or not before < 2 * gap:
        return None
    left, right = ladder.left[last], ladder.right[last]
    drift = max(abs(left - ladder.left[last - 1]), abs(right - ladder.right[last - 1]))
    return left, right, drift + 20 * ladder.rounding[last]
