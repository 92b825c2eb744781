"""A ``Report`` as an HTML page: one file without network access, readable on a phone.

For each argument it shows the worst elements in error bars and the step curve of the worst: the distance of the
difference quotient from the extrapolated slope, as a function of the step, with the error bar as a band.
"""

import html
import math

from .page_style import STYLE
from .report import CANNOT_TELL, RIGHT

_WIDTH, _HEIGHT = 320, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 14, 12, 34
_MOST_POWERS = 24  # powers of ten on the axis of errors

_MORE_STYLE = """
.verdict.unsure { color: var(--single); }
td.unsure { color: var(--single); font-weight: 600; }
h2 code { font-size: 1.1rem; }
.charts { grid-template-columns: minmax(0, 34rem); margin-top: 1rem; }
.bar { fill: var(--exact); opacity: .15; }
.given { stroke: var(--bad); stroke-width: 2; stroke-dasharray: 6 4; }
.point { fill: var(--double); }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
@media (max-width: 44rem) {
  tbody tr { grid-template-columns: 1fr 1fr; }
  td.number { grid-column: 1 / -1; }
  td:last-child::before { content: attr(data-name); }
}
"""

_LEGEND = """<ul class="legend">
<li><svg viewBox="0 0 34 10"><path class="double" d="M2 5H32"/></svg>difference quotient less the slope</li>
<li><svg viewBox="0 0 34 10"><path class="law" d="M2 5H32"/></svg>its estimated rounding error</li>
<li><svg viewBox="0 0 34 10"><path class="bar" d="M2 0H32V10H2Z"/></svg>within the error bar</li>
<li><svg viewBox="0 0 34 10"><path class="given" d="M2 5H32"/></svg>the gradient to check</li>
</ul>"""


def report_page(report):
    """The page as a string.

    >>> from .report import ArgumentReport, Report
    >>> page = report_page(Report("softmax", [ArgumentReport("inputs", (2, 3))], seed=0))
    >>> page.startswith("<!doctype html>") and "softmax" in page
    True
    """
    name = html.escape(report.function)
    arguments = "\n".join(_argument(argument) for argument in report.arguments)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>gradcheck {name}</title>
<style>{STYLE}{_MORE_STYLE}</style>
</head>
<body>
<main>
<h1>The gradient of {name}</h1>
<p class="verdict{_mark(report.verdict)}">{html.escape(_summary(report))}</p>
{_findings(report)}
{_message(report)}
{arguments}
<h2>Reproduce</h2>
<pre>{html.escape(report.call)}</pre>
</main>
</body>
</html>
"""


def _summary(report):
    checked = sum(argument.checked for argument in report.arguments)
    wrong = sum(argument.failures for argument in report.arguments)
    unsure = sum(argument.unsure for argument in report.arguments)
    parts = [f"{checked:,} {'elements' if report.mode == 'full' else 'directions'} checked"]
    parts += [f"{wrong:,} wrong"] * bool(wrong) + [f"{unsure:,} inconclusive"] * bool(unsure)
    if report.culprit:
        parts.append(f"{report.culprit} is wrong on its own")
    parts.append(f"{report.evaluations:,} evaluations in {report.seconds:.1f} s")
    return f"{report.verdict.capitalize()}: {', '.join(parts)}."


def _findings(report):
    if not report.findings:
        return ""
    items = "\n".join(
        f"<li><strong>{html.escape(finding.kind)}</strong>: {html.escape(finding.text)}"
        f"{'' if finding.is_error else ' (the values are right)'}</li>"
        for finding in report.findings
    )
    return f"<h2>Findings</h2>\n<ul>\n{items}\n</ul>"


def _message(report):
    error = report.error()
    return "" if error is None else f"<h2>What is wrong</h2>\n<pre>{html.escape(str(error))}</pre>"


def _argument(argument):
    shape = " x ".join(map(str, argument.shape)) or "scalar"
    facts = [f"{argument.dtype}, {shape}", f"{argument.checked:,} checked"]
    facts += [f"{argument.failures:,} wrong"] * bool(argument.failures)
    facts += [f"{argument.unsure:,} inconclusive"] * bool(argument.unsure)
    facts += ["at least half of the elements are wrong"] * argument.half_wrong
    facts += [] if argument.has_influence else ["it has no influence on the outputs"]
    facts += [] if argument.precision is None else [str(argument.precision)]
    kinks = "".join(
        f"<p>Not checked: {html.escape(str(kink))}.</p>\n" for kink in argument.kinks[:5]
    )
    order = " of second order" if argument.order == 2 else ""
    return f"""<h2><code>{html.escape(argument.name)}</code>{order}</h2>
<p class="verdict{_mark(argument.verdict)}">{argument.verdict}</p>
<p>{html.escape("; ".join(facts))}.</p>
{kinks}{_worst(argument)}
{_curve(argument)}"""


def _worst(argument):
    if not argument.worst:
        return ""
    rows = "\n".join(map(_row, argument.worst))
    heads = ["element", "verdict", "error bars", "analytic", "numeric", "+-", "factor"]
    cells = "".join(f'<th scope="col">{head}</th>' for head in heads)
    label = f"Worst elements of {html.escape(argument.name)}"
    return f"""<div class="scroll" tabindex="0" role="region" aria-label="{label}">
<table>
<thead><tr>{cells}</tr></thead>
<tbody>
{rows}
</tbody></table></div>"""


def _row(element):
    index = "a random direction" if element.index is None else f"[{_list(element.index)}]"
    factor = "" if element.factor is None else f"{element.factor:.8g}"
    cells = [
        ("verdict", element.verdict, _mark(element.verdict).strip() or "good"),
        ("error bars", f"{element.bars:.2g}", ""),
        ("analytic", f"{element.analytic:.12g}", "number"),
        ("numeric", f"{element.numeric:.12g}", "number"),
        ("+-", f"{element.error_bar:.1g}", ""),
        ("factor", factor, ""),
    ]
    words = "".join(
        f'<td data-name="{name}" class="{mark}">{text}</td>' for name, text, mark in cells
    )
    return f"<tr><td>{index}</td>{words}</tr>"


def _list(index):
    return ", ".join(map(str, index))


def _mark(verdict):
    return {RIGHT: "", CANNOT_TELL: " unsure"}.get(verdict, " bad")


# ------------------------------------------------------------------------------------------------------ the step curve


def _curve(argument):
    """The figure of the worst element's ``Ladder``; nothing if it has none or no step has a finite quotient."""
    ladder = argument.ladder
    if ladder is None or not argument.worst:
        return ""
    element = argument.worst[0]
    points = [
        (step, abs(slope - ladder.slope), rounding)
        for step, slope, rounding in zip(ladder.steps, ladder.slopes, ladder.rounding)
        if math.isfinite(slope) and math.isfinite(ladder.slope)
    ]
    if len(points) < 2:
        return ""
    apart = abs(element.analytic - ladder.slope)
    axes = _Axes(points, ladder.error_bar, apart)
    where = "a random direction" if element.index is None else f"[{_list(element.index)}]"
    label = html.escape(
        f"{argument.name} {where}: distance of the difference quotient from the slope, by step"
    )
    curve = axes.path([(step, error) for step, error, _ in points])
    rounding = axes.path([(step, noise) for step, _, noise in points])
    dots = "".join(axes.point(step, error) for step, error, _ in points)
    given = ""
    if math.isfinite(apart):
        given = f'<path class="given" d="M{_LEFT} {axes.y(apart):.1f}H{_WIDTH - _RIGHT}"/>'
    band = ""
    if math.isfinite(ladder.error_bar):
        top = axes.y(ladder.error_bar)
        band = f'<path class="bar" d="M{_LEFT} {top:.1f}H{_WIDTH - _RIGHT}V{_HEIGHT - _BOTTOM}H{_LEFT}Z"/>'
    return f"""<div class="charts"><figure><figcaption>{html.escape(where)}<span>slope {ladder.slope:.8g} +- \
{ladder.error_bar:.1g}</span></figcaption>
<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">
{axes.drawn()}
{band}
<path class="law" fill="none" d="{rounding}"/>
<path class="double" d="{curve}"/>{dots}
{given}
</svg></figure></div>
{_LEGEND}"""


class _Axes:
    """Logarithmic axes: steps from large on the left to small on the right, errors upwards."""

    def __init__(self, points, error_bar, apart):
        steps = [step for step, _, _ in points]
        self._first, self._last = math.log10(max(steps)), math.log10(min(steps))
        errors = [e for point in points for e in point[1:]] + [error_bar, apart]
        powers = [math.log10(e) for e in errors if 0 < e < math.inf] or [0.0]
        self._highest = math.ceil(max(powers))
        self._lowest = max(math.floor(min(powers)) - 1, self._highest - _MOST_POWERS)
        if self._lowest >= self._highest:
            self._lowest = self._highest - 1

    def x(self, step):
        width = self._last - self._first or -1.0
        share = (math.log10(step) - self._first) / width
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, error):
        power = math.log10(error) if error > 0 else self._lowest
        share = (min(power, self._highest) - self._lowest) / (self._highest - self._lowest)
        return _HEIGHT - _BOTTOM - max(share, 0.0) * (_HEIGHT - _TOP - _BOTTOM)

    def path(self, points):
        words = [f"{self.x(step):.1f} {self.y(error):.1f}" for step, error in points]
        return "M" + "L".join(words)

    def point(self, step, error):
        return f'<circle class="point" r="2.5" cx="{self.x(step):.1f}" cy="{self.y(error):.1f}"/>'

    def drawn(self):
        parts = []
        between = max(1, math.ceil((self._highest - self._lowest) / 7))
        for power in range(self._lowest, self._highest + 1, between):
            y = self.y(10.0**power)
            parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
            text = f'<text x="{_LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{power_of_ten(power)}</text>'
            parts.append(text)
        first, last = math.floor(self._first), math.ceil(self._last)
        for power in range(first, last - 1, -max(1, round((first - last) / 5))):
            x = self.x(10.0**power)
            parts.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{_HEIGHT - _BOTTOM}"/>')
            y = _HEIGHT - _BOTTOM + 14
            text = f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{power_of_ten(power)}</text>'
            parts.append(text)
        middle = (_LEFT + _WIDTH - _RIGHT) / 2
        text = f'<text x="{middle:.0f}" y="{_HEIGHT - 4}" text-anchor="middle">step h</text>'
        parts.append(text)
        return "".join(parts)


def power_of_ten(power):
    """10 to a power as SVG text, with a superscript exponent.

    >>> power_of_ten(0), power_of_ten(2)
    ('1', '10<tspan dy="-4" font-size="8">2</tspan>')
    """
    if power == 0:
        return "1"
    exponent = str(power).replace("-", "\N{MINUS SIGN}")
    return f'10<tspan dy="-4" font-size="8">{exponent}</tspan>'
