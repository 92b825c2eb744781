"""The result of a check: its numbers, as data and as JSON, and the errors.

``Report`` -> one ``ArgumentReport`` for each argument -> its worst ``Element``s, and the ``Ladder`` of the worst.
``Report.to_json()`` gives all of it as plain lists, numbers and strings; the schema is documented there.
"""

import math
from dataclasses import asdict, dataclass, field

import numpy as np

RIGHT, WRONG, CANNOT_TELL = "right", "wrong", "cannot tell"


class GradcheckError(RuntimeError):
    """A wrong gradient, or a function whose gradient cannot be checked.

    Attributes:
        op: the wrong primitive, if one could be identified, else the name of the function.
        argument: the argument whose gradient is wrong, as an expression such as ``inputs[0]``.
        index: the index of the worst element in that argument; None for a random direction.
        numeric, analytic: the difference quotient and the gradient there.
        error_bar: the estimated error of ``numeric``.
        seed: the seed of the cotangent (and of the directions).
        call: the call that reproduces the error.
        report: the ``Report``, or None if the check did not get that far.

    >>> import numpy as np
    >>> import tinyattn as ta
    >>> def half_forgotten(x):
    ...     return x + x.detach()
    >>> try:
    ...     ta.gradcheck(half_forgotten, ta.tensor(np.array([1.0, 2.0]), requires_grad=True))
    ... except ta.GradcheckError as error:
    ...     print(round(error.numeric / error.analytic))
    2
    """

    def __init__(self, message, report=None, **facts):
        super().__init__(message)
        self.report = report
        for name in ("op", "argument", "index", "numeric", "analytic", "error_bar", "seed", "call"):
            setattr(self, name, facts.get(name))


class GradcheckInconclusive(GradcheckError):
    """No gradient is wrong, but the differences of the function are not accurate enough to call all of them right.

    >>> issubclass(GradcheckInconclusive, GradcheckError)
    True
    """


class GradcheckWarning(UserWarning):
    """Something that was not checked: a kink, or an input without influence on the outputs."""


@dataclass
class Kink:
    """A place where the function has no derivative within the step, with its one-sided slopes."""

    index: object
    left: float
    right: float
    analytic: float

    def __str__(self):
        where = "along a random direction" if self.index is None else f"at index {self.index}"
        if not (np.isfinite(self.left) and np.isfinite(self.right)):
            return f"{where} the function is not finite on both sides"
        return (
            f"{where} the slope is {self.left:.6g} to the left and {self.right:.6g} to the right "
            f"(the gradient given is {self.analytic:.6g})"
        )


@dataclass
class Finding:
    """A defect of a backward pass other than a wrong value.

    Attributes:
        kind: a fixed phrase, one of ``KINDS``.
        argument: the argument it concerns, or None.
        text: one sentence for the user.
        is_error: False for bad practice that gives right gradients.
    """

    kind: str
    argument: str | None
    text: str
    is_error: bool = True

    KINDS = (
        "adds into a gradient",
        "overwrites a gradient",
        "aliases its cotangent",
        "changes its cotangent",
        "changes its inputs",
        "keeps state",
        "undefined buffer",
        "not deterministic",
        "depends on strides",
        "wrong dtype",
        "wrong shape",
        "wrong device",
    )

    def __str__(self):
        return f"{self.kind}: {self.text}"


@dataclass
class Element:
    """The gradient at one element, or along one random direction, and the difference quotient that it is compared with.

    Attributes:
        index: its index in the argument; None for a random direction.
        analytic: the gradient to check.
        numeric, error_bar: the difference quotient, and the estimate of its error.
        allowed: the largest |analytic - numeric| that is not called wrong.
        verdict: "right", "wrong" or "cannot tell".
        reason: why the verdict is "cannot tell".
    """

    index: tuple | None
    analytic: float
    numeric: float
    error_bar: float
    allowed: float = 0.0
    verdict: str = RIGHT
    reason: str = ""

    @property
    def error(self):
        """|analytic - numeric|; infinite where that is not a number."""
        error = abs(self.analytic - self.numeric)
        return math.inf if math.isnan(error) else error

    @property
    def bars(self):
        """The error in error bars."""
        if not self.error:
            return 0.0
        return self.error / self.error_bar if self.error_bar else math.inf

    @property
    def factor(self):
        """analytic / numeric, or None if that is undefined or infinite."""
        if not self.numeric or not math.isfinite(self.analytic / self.numeric):
            return None
        return self.analytic / self.numeric

    def __str__(self):
        text = f"analytic {self.analytic:.12g}, numeric {_with_bar(self.numeric, self.error_bar)}"
        if self.verdict == RIGHT:
            return f"{text}: {self.bars:.2g} error bars apart"
        if self.verdict == CANNOT_TELL:
            return f"{text}: cannot tell, {self.reason}"
        by = f"{self.bars:.1g} error bars" if math.isfinite(self.bars) else f"{self.error:.3g}"
        factor = "" if self.factor is None else f", factor {self.factor:.6g}"
        return f"{text}: off by {by}{factor}"


def _with_bar(number, bar):
    """A number to the digits that its error bar leaves, with the bar.

    >>> _with_bar(0.51234567891234, 3e-7), _with_bar(2.0, 0.0)
    ('0.5123457 +- 3e-07', '2 +- 0')
    """
    if not (math.isfinite(number) and math.isfinite(bar)):
        return f"{number:.6g} +- {bar:.1g}"
    if not number or not bar:
        return f"{number:.12g} +- {bar:.1g}"
    digits = 1 + math.floor(math.log10(abs(number))) - math.floor(math.log10(bar))
    return f"{number:.{min(max(digits, 2), 17)}g} +- {bar:.1g}"


@dataclass
class Ladder:
    """Difference quotients over a sequence of steps: the curve of a plot, and the error bar as its band.

    Attributes:
        steps: from large to small.
        slopes: the central difference with each step; NaN where the function is not finite.
        rounding: the estimated rounding error of each.
        slope, error_bar: the extrapolated slope and the estimate of its error.
        step: the smallest step that ``slope`` was extrapolated from.
        left, right: the one-sided differences of each step.
    """

    steps: list = field(default_factory=list)
    slopes: list = field(default_factory=list)
    rounding: list = field(default_factory=list)
    left: list = field(default_factory=list)
    right: list = field(default_factory=list)
    slope: float = math.nan
    error_bar: float = math.inf
    step: float = 0.0


@dataclass
class Precision:
    """The error of a low-precision gradient relative to float64, in units in the last place (ulp).

    Attributes:
        dtype: the low precision.
        ulp: the error of the worst element.
        expected: the error that rounding of inputs and operations explains there.
        index, low, exact: that element, its gradient in low precision and in float64.
    """

    dtype: str
    ulp: float
    expected: float
    index: tuple | None = None
    low: float = 0.0
    exact: float = 0.0

    @property
    def passed(self):
        return self.ulp <= self.expected

    def __str__(self):
        return f"{self.dtype} gradient: {self.ulp:.2g} ulp, expected up to {self.expected:.2g}"


@dataclass
class ArgumentReport:
    """How well the gradient of one argument agrees with differences of the function.

    ``relative_error`` is relative to the largest entry of this argument's gradient, so that it stays small for entries
    whose exact value is zero.

    Attributes:
        checked, failures, unsure: number of elements or directions that were checked, are wrong, are inconclusive.
        worst: up to 5 ``Element``s, the worst first.
        ladder: the ``Ladder`` of the first of them.
        directions: how many random directions were checked instead of elements (``mode="fast"``); 0 for elements.
        more_wrong: with directions, whether there are more wrong elements than ``worst`` lists.
        half_wrong: with directions, whether at least half of the elements are wrong, by a sample.
        precision: the ``Precision`` of a low-precision gradient, or None.
    """

    name: str
    shape: tuple
    dtype: str = "float64"
    order: int = 1
    checked: int = 0
    failures: int = 0
    unsure: int = 0
    absolute_error: float = 0.0
    relative_error: float = 0.0
    worst: list = field(default_factory=list)
    ladder: Ladder | None = None
    directions: int = 0
    more_wrong: bool = False
    half_wrong: bool = False
    kinks: list = field(default_factory=list)
    has_influence: bool = True
    precision: Precision | None = None

    @property
    def verdict(self):
        if self.failures or (self.precision is not None and not self.precision.passed):
            return WRONG
        return CANNOT_TELL if self.unsure else RIGHT

    @property
    def worst_index(self):
        return self.worst[0].index if self.worst else None

    @property
    def numeric(self):
        return self.worst[0].numeric if self.worst else 0.0

    @property
    def analytic(self):
        return self.worst[0].analytic if self.worst else 0.0


@dataclass
class Report:
    """The result of one check: an ``ArgumentReport`` for each argument, and how to reproduce it."""

    function: str
    arguments: list
    seed: int
    mode: str = "full"
    findings: list = field(default_factory=list)
    evaluations: int = 0
    seconds: float = 0.0
    operations: tuple = ()
    call: str = ""
    searched: bool = False  # whether each operation was checked on its own
    culprit: str | None = None  # the first operation that is wrong on its own

    @property
    def verdict(self):
        """ "wrong" if any gradient is, or there is a finding that is an error; else "cannot tell" or "right"."""
        verdicts = {argument.verdict for argument in self.arguments}
        if WRONG in verdicts or any(finding.is_error for finding in self.findings):
            return WRONG
        return CANNOT_TELL if CANNOT_TELL in verdicts else RIGHT

    @property
    def passed(self):
        """Whether nothing is wrong; some gradients may be inconclusive (see ``verdict``)."""
        return self.verdict != WRONG

    @property
    def absolute_error(self):
        """The largest absolute error of all arguments."""
        return max((argument.absolute_error for argument in self.arguments), default=0.0)

    @property
    def relative_error(self):
        """The largest relative error of all arguments."""
        return max((argument.relative_error for argument in self.arguments), default=0.0)

    @property
    def kinks(self):
        """All kinks as ``(argument name, Kink)``."""
        return [(argument.name, kink) for argument in self.arguments for kink in argument.kinks]

    def to_json(self):
        """The report as objects that ``json.dumps`` takes.

        The keys are those of the attributes of ``Report``, ``ArgumentReport``, ``Element``, ``Ladder``, ``Kink``,
        ``Finding`` and ``Precision``, with ``verdict`` on the report and on each argument, and ``bars`` and ``factor``
        on each element. Indices are lists. Numbers that are not finite are the strings "inf", "-inf" and "nan", since
        JSON has none. ``version`` is increased when a key changes its meaning.

        >>> Report("f", [ArgumentReport("x", (2,))], seed=0).to_json()["arguments"][0]["verdict"]
        'right'
        """
        document = {"version": 1, "verdict": self.verdict, **asdict(self)}
        for entry, argument in zip(document["arguments"], self.arguments, strict=True):
            entry["verdict"] = argument.verdict
            for element_entry, element in zip(entry["worst"], argument.worst, strict=True):
                element_entry.update(error=element.error, bars=element.bars, factor=element.factor)
        return _plain(document)

    def error(self, op=None):
        """The ``GradcheckError`` or ``GradcheckInconclusive`` of this report; None if all gradients are right."""
        from .message import error_of

        return error_of(self, op)


def _plain(value):
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
