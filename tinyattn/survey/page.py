"""The survey as an HTML page: one file without network access, with a light and a dark theme."""

import html
import math

import numpy as np

from ..checker.page import power_of_ten
from ..checker.page_style import STYLE
from ..checker.report import WRONG
from .curve import STEPS

_WIDTH, _HEIGHT = 320, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 18, 10, 34
_LOWEST, _HIGHEST = -17, 2  # powers of ten on the axis of errors
_FIRST, _LAST = 0, -12  # powers of ten on the axis of steps

_LEGEND = """<ul class="legend">
<li><svg viewBox="0 0 34 10"><path class="double" d="M2 5H32"/></svg>float64</li>
<li><svg viewBox="0 0 34 10"><path class="single" d="M2 5H32"/></svg>float32</li>
<li><svg viewBox="0 0 34 10"><path class="exact" d="M2 5H32"/></svg>complex step, where the operation is analytic</li>
<li><svg viewBox="0 0 34 10"><path class="law" d="M2 5H32"/></svg>h&sup2; (truncation) and 1/h (rounding)</li>
</ul>"""


def page(rows, curves, verdict, passed, settings):
    """The page as a string.

    Args:
        rows: ``survey.Row``s, in the order of the table.
        curves: ``curve.Curve``s.
        verdict: the summary line.
        passed: whether every check passed.
        settings: a sentence about tolerances, order and device.
    """
    charts = "\n".join(_figure(curve) for curve in curves)
    drawn = {curve.name for curve in curves}
    lines = "\n".join(_table_row(row, drawn) for row in rows)
    faults = "\n\n".join(fault for row in rows for fault in row.faults)
    wrong = f"<h2>What is wrong</h2><pre>{html.escape(faults)}</pre>" if faults else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>tinyattn gradcheck</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>Gradients compared with finite differences</h1>
<p class="verdict{"" if passed else " bad"}">{html.escape(verdict)}</p>
<p>{html.escape(settings)} Outputs are contracted with a random cotangent: with a cotangent of ones, wrong gradients
of softmax and layer norm would pass. A <em>rule</em> is the definition of an operation, a <em>kernel</em> its fast
version for training, and a <em>block</em> is composed of operations.</p>
{wrong}
<div class="scroll" tabindex="0" role="region" aria-label="Table of checks"><table>
<thead><tr><th scope="col">checked</th><th scope="col">as</th><th scope="col">cases</th>
<th scope="col">absolute error</th><th scope="col">relative error</th><th scope="col">evaluations</th>
<th scope="col">time</th><th scope="col">result</th></tr></thead>
<tbody>
{lines}
</tbody></table></div>
<h2>Truncation and rounding error by step size</h2>
<p>The relative error of a central difference along one random direction, from large steps on the left to small ones
on the right. It falls with h&sup2; until the rounding of the function's values, divided by the step, dominates. The
circle marks the best step in float64. The best error in float32 is about a million times larger. Where a curve has no
left slope, the operation is (piecewise) linear and has no truncation error.</p>
{_LEGEND}
<div class="charts">
{charts}
</div>
</main>
</body>
</html>
"""


def _table_row(row, drawn):
    name = html.escape(row.name)
    if row.version != "block" and row.name in drawn:
        name = f'<a href="#{name}">{name}</a>'
    word = "WRONG" if row.verdict == WRONG else row.verdict
    result = ("good" if row.passed else "bad", word)
    numbers = {
        "as": row.version,
        "cases": row.cases,
        "absolute": f"{row.absolute_error:.1e}",
        "relative": f"{row.relative_error:.1e}",
        "evaluations": f"{row.evaluations:,}",
        "time": f"{row.seconds:.2f} s",
    }
    cells = "".join(f'<td data-name="{key}">{value}</td>' for key, value in numbers.items())
    return f'<tr><td>{name}</td>{cells}<td class="{result[0]}">{result[1]}</td></tr>'


def _figure(curve):
    step, error = curve.best
    name = html.escape(curve.name)
    label = f"{name}: error of a central difference against its step"
    words = f"{error:.0e} at h = {step:.0e}" if curve.truncates else "no truncation error"
    return f"""<figure id="{name}"><figcaption>{name}<span>{words}</span></figcaption>
<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">
{_axes()}
{_laws(curve)}
{_complex_line(curve)}
<path class="single" d="{_path(curve.float32)}"/>
<path class="double" d="{_path(curve.float64)}"/>
{_best(curve)}
</svg></figure>"""


def _axes():
    parts = []
    for power in range(-16, _HIGHEST + 1, 4):
        y = _y(10.0**power)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
        parts.append(
            f'<text x="{_LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{power_of_ten(power)}</text>'
        )
    for power in range(_FIRST, _LAST - 1, -3):
        x = _x(10.0**power)
        parts.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{_HEIGHT - _BOTTOM}"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 14}" text-anchor="middle">{power_of_ten(power)}</text>'
        )
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(f'<text x="{middle:.0f}" y="{_HEIGHT - 4}" text-anchor="middle">step h</text>')
    return "".join(parts)


def _laws(curve):
    """The laws h^2 and 1/h, fitted to either side of the minimum; only if there is a truncation error."""
    if not curve.truncates:
        return ""
    step, _ = curve.best
    lines = []
    for exponent, side in ((2, (step * 10, step * 1e3)), (-1, (step * 1e-5, step * 0.1))):
        near = (side[0] <= STEPS) & (side[1] >= STEPS) & (curve.float64 > 0)
        if not near.any():
            continue
        factor = float(np.median(curve.float64[near] / STEPS[near] ** exponent))
        ends = [h for h in STEPS if 10.0**_LOWEST <= factor * h**exponent <= 10.0**_HIGHEST]
        ends = [h for h in ends if (h >= step * 0.3 if exponent > 0 else h <= step * 3)]
        words = "L".join(f"{_x(h):.1f} {_y(factor * h**exponent):.1f}" for h in (ends[0], ends[-1]))
        lines.append(f'<path class="law" d="M{words}"/>')
    return "".join(lines)


def _best(curve):
    step, error = curve.best
    if not curve.truncates:
        return ""
    return f'<circle class="best" r="4" cx="{_x(step):.1f}" cy="{_y(error):.1f}"/>'


def _complex_line(curve):
    if curve.complex_step is None:
        return ""
    y = _y(max(curve.complex_step, 10.0**_LOWEST))
    return f'<path class="exact" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>'


def _path(errors):
    """An SVG path through the finite errors, with gaps for the others."""
    words, pen_is_down = [], False
    for step, error in zip(STEPS, errors, strict=True):
        if not np.isfinite(error):
            pen_is_down = False
            continue
        error = min(max(error, 10.0**_LOWEST), 10.0**_HIGHEST)
        words.append(f"{'L' if pen_is_down else 'M'}{_x(step):.1f} {_y(error):.1f}")
        pen_is_down = True
    return "".join(words)


def _x(step):
    share = (math.log10(step) - _FIRST) / (_LAST - _FIRST)
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _y(error):
    share = (math.log10(error) - _LOWEST) / (_HIGHEST - _LOWEST)
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)
