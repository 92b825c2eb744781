"""The error message of a failed check."""

import math

from .report import CANNOT_TELL, WRONG, GradcheckError, GradcheckInconclusive


def error_of(report, op=None):
    """The exception of a ``Report``: the worst defect, its place, and how to reproduce it; None if all is right."""
    if report.verdict not in (WRONG, CANNOT_TELL):
        return None
    op = op or report.culprit or report.function
    values = [a for a in report.arguments if a.failures]
    if values:
        return _wrong_value(report, max(values, key=lambda a: _for_order(a.relative_error)), op)
    errors = [finding for finding in report.findings if finding.is_error]
    if errors:
        lines = [f"the backward pass of {op} {errors[0].kind}", *map(_finding_line, errors)]
        return _error(report, lines, op, argument=errors[0].argument)
    imprecise = [a for a in report.arguments if a.precision and not a.precision.passed]
    if imprecise:
        return _imprecise(report, imprecise[0], op)
    return _inconclusive(report, op)


def _wrong_value(report, worst, op):
    element = worst.worst[0]
    what = "second-order gradient" if worst.order == 2 else "gradient"
    lines = [
        f"the {what} of {worst.name} is wrong",
        f"  operation   {op}" + _location(report, worst),
        f"  argument    {worst.name}, shape {worst.shape}",
        f"  worst at    {_place(element)}",
        f"  verdict     {element}",
        f"  numeric     {element.numeric:.12g} +- {element.error_bar:.1g}",
        f"  analytic    {element.analytic:.12g}{_ratio(element)}",
        f"  wrong       {_count(worst)}",
        f"  other       {_others(report.arguments, worst)}",
        *map(_finding_line, report.findings),
    ]
    return _error(report, lines, op, argument=worst.name, element=element)


def _imprecise(report, argument, op):
    precision = argument.precision
    lines = [
        f"the {precision.dtype} gradient of {argument.name} is less accurate than {precision.dtype} allows",
        f"  operation   {op}",
        f"  argument    {argument.name}, shape {argument.shape}",
        f"  worst at    [{', '.join(map(str, precision.index or ()))}]",
        f"  verdict     {precision.ulp:.3g} ulp, expected up to {precision.expected:.2g}",
        f"  float64     {precision.exact:.12g}, right to its error bar",
        f"  {precision.dtype:11s} {precision.low:.9g}",
    ]
    return _error(report, lines, op, argument=argument.name)


def _inconclusive(report, op):
    unsure = [argument for argument in report.arguments if argument.unsure]
    argument = unsure[0]
    element = next(e for e in argument.worst if e.verdict == CANNOT_TELL)
    lines = [
        f"cannot tell whether the gradient of {argument.name} is right: {element.reason}",
        f"  operation   {op}",
        f"  argument    {argument.name}, shape {argument.shape}",
        f"  worst at    {_place(element)}",
        f"  numeric     {element.numeric:.12g} +- {element.error_bar:.1g}",
        f"  analytic    {element.analytic:.12g}{_ratio(element)}",
        f"  unsure      {sum(a.unsure for a in unsure)} of {sum(a.checked for a in report.arguments)}; none is wrong",
    ]
    return _error(
        report, lines, op, argument=argument.name, element=element, kind=GradcheckInconclusive
    )


def _error(report, lines, op, argument, element=None, kind=GradcheckError):
    lines += [
        f"  cotangent   random, seed {report.seed}",
        f"  reproduce   {report.call}",
    ]
    facts = {"op": op, "argument": argument, "seed": report.seed, "call": report.call}
    if element is not None:
        facts |= {name: getattr(element, name) for name in _ELEMENT_FACTS}
    return kind("\n".join(lines), report=report, **facts)


_ELEMENT_FACTS = ("index", "numeric", "analytic", "error_bar")


def _location(report, worst):
    several = len(report.operations) > 1
    among = f" of {report.function}, which runs {', '.join(report.operations)}" if several else ""
    if report.culprit:
        return f", wrong on its own at the inputs it gets here{among[:300]}"
    if report.searched and worst.order == 1:
        return (
            "; each operation is right on its own, so something leaves the graph: "
            "detach(), .data, .numpy()"
        )
    return ""


def _place(element):
    if element.index is None:
        return "along a random direction"
    return f"[{', '.join(map(str, element.index))}]"


def _count(argument):
    places = ", ".join(_place(e) for e in argument.worst[1:] if e.verdict == WRONG)
    also = f"; also at {places}" if places and argument.worst_index is not None else ""
    if not argument.directions:
        return f"{argument.failures} of {argument.checked} elements{also}"
    if argument.worst_index is None:
        return f"{argument.failures} of {argument.directions} directions"
    size = math.prod(argument.shape)
    if argument.half_wrong:
        return f"at least half of {size} elements, by a sample{also}"
    more = "more than " if argument.more_wrong else ""
    return f"{more}{argument.failures} of {size} elements, found by bisection{also}"


def _finding_line(finding):
    return f"  finding     {finding}"


def _ratio(element):
    return "" if element.factor is None else f"  = {element.factor:.6g} times the numeric value"


def _others(arguments, worst):
    others = [a for a in arguments if a is not worst]
    return (
        "; ".join(f"{a.name} {a.verdict.upper() if a.failures else a.verdict}" for a in others[:8])
        or "none"
    )


def _for_order(number):
    return math.inf if math.isnan(number) else number
