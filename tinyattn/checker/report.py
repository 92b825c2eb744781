"""The result of a check: the numbers, and the error message."""

from dataclasses import dataclass, field

import numpy as np


class GradcheckError(RuntimeError):
    """A wrong gradient, or a function whose gradient cannot be checked.

    Attributes:
        op: the wrong primitive, if one could be identified, else the name of the function.
        argument: the argument whose gradient is wrong, as an expression such as ``inputs[0]``.
        index: where in that argument; None for a random direction.
        numeric, analytic: the two values there.
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
        for name in ("op", "argument", "index", "numeric", "analytic", "seed", "call"):
            setattr(self, name, facts.get(name))


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
class ArgumentReport:
    """How well the gradient of one argument agrees with differences of the function.

    ``relative_error`` is relative to the largest entry of this argument's gradient, so that it stays small for entries
    whose exact value is zero.
    """

    name: str
    shape: tuple
    order: int = 1
    checked: int = 0
    absolute_error: float = 0.0
    relative_error: float = 0.0
    worst_index: object = None
    numeric: float = 0.0
    analytic: float = 0.0
    failures: int = 0
    kinks: list = field(default_factory=list)
    has_influence: bool = True


@dataclass
class Report:
    """The result of one check: an ``ArgumentReport`` for each argument, and how to reproduce it."""

    function: str
    arguments: list
    seed: int
    evaluations: int = 0
    seconds: float = 0.0
    operations: tuple = ()
    call: str = ""
    searched: bool = False  # whether each operation was checked on its own
    culprit: str | None = None  # the first operation that is wrong on its own

    @property
    def passed(self):
        """Whether no argument's gradient is wrong."""
        return not any(argument.failures for argument in self.arguments)

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

    def error(self, op=None):
        """The ``GradcheckError`` for the argument with the largest relative error."""
        wrong = [argument for argument in self.arguments if argument.failures]
        worst = max(wrong, key=lambda argument: _for_order(argument.relative_error))
        op = op or self.culprit or self.function
        what = "second-order gradient" if worst.order == 2 else "gradient"
        where = "along a random direction" if worst.worst_index is None else f"[{_index(worst)}]"
        lines = [
            f"the {what} of {worst.name} is wrong",
            f"  operation   {op}" + self._location(worst),
            f"  argument    {worst.name}, shape {worst.shape}",
            f"  worst at    {where}",
            f"  numeric     {worst.numeric:.12g}",
            f"  analytic    {worst.analytic:.12g}{_ratio(worst)}",
            f"  wrong       {worst.failures} of {worst.checked} elements"
            if worst.worst_index is not None
            else f"  wrong       {worst.failures} of {worst.checked} directions",
            f"  other       {_others(self.arguments, worst)}",
            f"  cotangent   random normal, seed {self.seed}",
            f"  reproduce   {self.call}",
        ]
        return GradcheckError(
            "\n".join(lines),
            report=self,
            op=op,
            argument=worst.name,
            index=worst.worst_index,
            numeric=worst.numeric,
            analytic=worst.analytic,
            seed=self.seed,
            call=self.call,
        )

    def _location(self, worst):
        several = len(self.operations) > 1
        among = f" of {self.function}, which runs {', '.join(self.operations)}" if several else ""
        if self.culprit:
            return f", wrong on its own at the inputs it gets here{among[:300]}"
        if self.searched and worst.order == 1:
            return (
                "; each operation is right on its own, so something leaves the graph: "
                "detach(), .data, .numpy()"
            )
        return ""


def _for_order(number):
    return np.inf if np.isnan(number) else number


def _index(argument):
    return ", ".join(map(str, argument.worst_index))


def _ratio(argument):
    if not argument.numeric or not np.isfinite(argument.analytic / argument.numeric):
        return ""
    return f"  = {argument.analytic / argument.numeric:.6g} times the numeric value"


def _others(arguments, worst):
    others = [a for a in arguments if a is not worst]
    if not others:
        return "none"
    return "; ".join(f"{a.name} {'WRONG' if a.failures else 'right'}" for a in others[:8])
