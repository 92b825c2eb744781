"""A learner's gradient next to the correct one, on the same small numbers: as text, and for softmax as bars in a page.

For the operations that ``tinyattn explain`` knows the text is its walkthrough, with the learner's line under each
gradient. For the others it is a table of elements.
"""

import html
from pathlib import Path

import numpy as np

from ..autograd import PRIMITIVES
from ..autograd.backward import unbroadcast
from ..data import InputError
from ..data.atomic import write_atomic
from ..study.explanation import Line, explain
from .course import locate
from .exercise import Vjp, exercise
from .process import SECONDS, ProcessError, gradients_of_file
from .relations import close

MOST_ELEMENTS = 12
SCORES, COTANGENT = "0.5 2 -1 1.5 0 -2", "1 -0.5 0.8 1.2 -1 0.3"  # the row of the page


def see(file, name=None, output=None, seconds=SECONDS):
    """The comparison as text, and whether all gradients agree; for softmax a page is written too.

    Args:
        file: a file of an exercise, or its name.
        name: the exercise, if the file is not named after it.
        output: the page to write; by default the exercise's name, in the directory of the file.
        seconds: the time limit of the learner's code [s].

    Raises:
        InputError: for an exercise without a backward pass.
    """
    path, name = locate(file, name)
    parts = [part for part in exercise(name).parts if isinstance(part, Vjp)]
    if not parts:
        raise InputError(
            f"{name} is no backward pass of an operation: tinyattn learn check says where it differs"
        )
    if output is not None and name != "softmax":
        raise InputError("--output: only softmax has a page")
    views = [(_Walkthrough if part.walkthrough else _Table)(part) for part in parts]
    if name == "softmax":
        views.append(_Bars(parts[0], Path(output) if output else path.with_suffix(".html")))
    try:
        found = gradients_of_file(path, name, [view.call for view in views], seconds)
    except ProcessError as error:
        return f"{path} gave no result: {error}", False
    texts, agree = [], True
    for view, gradients in zip(views, found):
        text, good = (
            view.show(gradients)
            if isinstance(gradients, list)
            else (f"{view.name}: {gradients}", False)
        )
        texts.append(text)
        agree &= good
    return "\n\n".join(texts), agree


class _View:
    """A call with small numbers, ``call``, its right gradients, and how to show the learner's next to them."""

    def __init__(self, part, g, out, inputs, parameters):
        self.part = part
        self.name = part.name
        self.inputs = [None if x is None else np.asarray(x) for x in inputs]
        self.g, self.out = np.asarray(g), np.asarray(out)
        right = part.solution()(self.g, self.out, *self.inputs, **parameters)
        self.right = [self._fitted(d, p) for p, d in enumerate(right)]
        lists = [None if x is None else x.tolist() for x in self.inputs]
        self.call = (part.name, self.g.tolist(), self.out.tolist(), lists, parameters)

    def _fitted(self, gradient, position):
        """A gradient as the engine would make it, summed over copies; unchanged if its shape does not allow that."""
        if gradient is None or self.part.undoes_broadcasting:
            return gradient if gradient is None else np.asarray(gradient)
        try:
            return unbroadcast(np.asarray(gradient), self.inputs[position].shape, self.name)
        except RuntimeError:
            return np.asarray(gradient)

    def pairs(self, gradients):
        """Yield ``(position, yours, right)`` for each gradient."""
        for position, right in enumerate(self.right):
            if right is not None and gradients[position] is not None:
                yield position, self._fitted(gradients[position], position), right


class _Walkthrough(_View):
    """The walkthrough of ``explain``, with the learner's gradients between its lines."""

    def __init__(self, part):
        self.where = where = part.walkthrough
        self.explanation = explain(where.operation)
        values = {
            line.name: line.value
            for line in self.explanation.lines
            if line.part in ("forward", "backward")
        }
        inputs = [values[one] if isinstance(one, str) else one for one in where.inputs]
        g = 1.0 if where.cotangent is None else values[where.cotangent]
        super().__init__(part, g, values[where.out], inputs, where.parameters)

    def show(self, gradients):
        agree = True
        for position, yours, right in self.pairs(gradients):
            name = self.where.gradients[position]
            if name is None:
                continue
            good = close(yours, right)
            agree &= good
            at = next(
                i
                for i, line in enumerate(self.explanation.lines)
                if line.name == name and line.value is not None
            )
            note = "agrees" if good else _gap(yours, right)
            self.explanation.lines.insert(
                at + 1, Line("backward", f"yours, {name}", "", yours, note)
            )
        self.explanation.lines = [
            line for line in self.explanation.lines if line.part in ("forward", "backward")
        ]
        return str(self.explanation), agree


class _Table(_View):
    """The elements of each gradient in the first case of the exercise."""

    def __init__(self, part):
        case = part.cases[0]
        inputs = case.draw(0)
        out = PRIMITIVES[part.primitive].forward(*inputs, **case.parameters)
        g = np.random.default_rng(1).standard_normal(np.shape(out))
        super().__init__(part, g, out, inputs, case.parameters)

    def show(self, gradients):
        names = PRIMITIVES[self.part.primitive].input_names
        lines, agree = [self.name, f"{'':14}{'yours':>12}{'right':>12}"], True
        for position, yours, right in self.pairs(gradients):
            agree &= close(yours, right)
            if yours.shape != right.shape:
                lines.append(f"d{names[position]} has shape {yours.shape}, expected {right.shape}")
                continue
            for index in list(np.ndindex(right.shape))[:MOST_ELEMENTS]:
                place = (
                    f"d{names[position]}[{', '.join(map(str, index))}]"
                    if index
                    else f"d{names[position]}"
                )
                mark = "" if close(yours[index], right[index]) else "  differs"
                lines.append(f"{place:14}{yours[index]:12.5f}{right[index]:12.5f}{mark}")
            if right.size > MOST_ELEMENTS:
                lines.append(f"... and {right.size - MOST_ELEMENTS} more")
        return "\n".join(lines), agree


class _Bars(_View):
    """A page with the row of scores, its probabilities, the cotangent, and both gradients as bars."""

    def __init__(self, part, path):
        self.path = path
        x = np.array(SCORES.split(), float)
        y = PRIMITIVES["softmax"].forward(x)
        super().__init__(part, np.array(COTANGENT.split(), float), y, [x], {})

    def show(self, gradients):
        ((_, yours, right),) = self.pairs(gradients)
        if yours.shape != right.shape:
            return f"dx has shape {yours.shape}, expected {right.shape}: no page was written", False
        write_atomic(self.path, _page(self.inputs[0], self.out, self.g, yours, right))
        return f"bar by bar, in any browser:  {self.path}", close(yours, right)


def _gap(yours, right):
    if yours.shape != right.shape:
        return f"DIFFERS: shape {yours.shape}, expected {right.shape}"
    return f"DIFFERS by {np.max(np.abs(yours - right)):.4g}"


# ------------------------------------------------------------------------------------------------------- the page

_STYLE = """
:root { color-scheme: light dark; --text: #1b1f24; --faint: #6a7280; --page: #ffffff; --line: #c9ced6;
  --one: #8a939f; --right: #1f6fb2; --yours: #c2620b; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e9ee; --faint: #9aa3b0; --page: #14171b; --line: #3a414b;
  --one: #7d8794; --right: #5aa9ea; --yours: #f0964a; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); max-width: 46rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1rem; margin: 1.5rem 0 0; } p { margin: 0.2rem 0; color: var(--faint); }
svg { width: 100%; height: auto; } svg text { font-size: 12px; fill: var(--text); text-anchor: middle; }
.key { display: inline-block; width: 0.8em; height: 0.8em; border-radius: 2px; margin: 0 0.3em 0 0.8em; }
"""
_WIDTH, _HEIGHT, _MARGIN = 640, 150, 22


def _page(x, y, g, yours, right):
    """The page as a string of HTML: one file, no script, no network."""
    verdict = (
        "They agree."
        if close(yours, right)
        else f"They differ by up to {np.max(np.abs(yours - right)):.4g}."
    )
    sums = f"Yours adds up to {_number(yours.sum())}, the right one to 0: a shift of all scores changes nothing."
    mean = (
        f"The average g under y, sum g y, is {_number((g * y).sum())}: every g is compared with it."
    )
    parts = [
        ("x, the scores", "", [("one", x)]),
        ("y = softmax(x)", "They add up to 1.", [("one", y)]),
        ("g, the cotangent of y", mean, [("one", g)]),
        ("dx, the cotangent of x", f"{verdict} {sums}", [("right", right), ("yours", yours)]),
    ]
    keys = '<span class="key" style="background:var(--right)"></span>right'
    keys += '<span class="key" style="background:var(--yours)"></span>yours'
    sections = [
        f"<h2>{html.escape(title)}{keys if len(series) > 1 else ''}</h2><p>{html.escape(text)}</p>{_bars(series)}"
        for title, text, series in parts
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width"><title>softmax, backward</title><style>{_STYLE}</style></head><body>'
        f"<h1>Softmax, backward: one row of scores</h1>{''.join(sections)}</body></html>\n"
    )


def _bars(series):
    """Bars of one or more rows of numbers side by side, as SVG; numbers that are not finite have no bar."""
    finite = [v for _, values in series for v in values if np.isfinite(v)]
    top, bottom = max([*finite, 0.0]), min([*finite, 0.0])
    scale = (_HEIGHT - 2 * _MARGIN) / ((top - bottom) or 1.0)
    zero = _MARGIN + top * scale
    length = len(series[0][1])
    step = _WIDTH / length
    width = min(48.0, 0.8 * step / len(series))
    shapes = [f'<line x1="0" x2="{_WIDTH}" y1="{zero:.1f}" y2="{zero:.1f}" stroke="var(--line)"/>']
    for place, (color, values) in enumerate(series):
        for i, value in enumerate(values):
            middle = (i + 0.5) * step + (place - (len(series) - 1) / 2) * width
            height = abs(value) * scale if np.isfinite(value) else 0.0
            upper = zero - height if value > 0 else zero
            label = zero - height - 5 if not value < 0 else zero + height + 14
            shapes.append(
                f'<rect x="{middle - width / 2 + 1:.1f}" y="{upper:.1f}" width="{width - 2:.1f}" height="{height:.1f}" '
                f'fill="var(--{color})"/><text x="{middle:.1f}" y="{label:.1f}">{_number(value)}</text>'
            )
    described = "; ".join(f"{name}: {', '.join(map(_number, values))}" for name, values in series)
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{html.escape(described)}">'
        f"{''.join(shapes)}</svg>"
    )


def _number(value):
    """Three decimals, and no minus sign before a zero."""
    text = f"{value:.3f}"
    return "0.000" if text == "-0.000" else text
