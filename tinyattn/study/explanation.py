"""``tinyattn explain``: the forward and backward pass of an operation, step by step, with numbers.

>>> import tinyattn as ta
>>> softmax = ta.study.explain("softmax", x="0 0", cotangent="1 0")
>>> [line.name for line in softmax.lines if line.part == "backward" and line.name]
['g', 'g y', 'sum_i g_i y_i', 'g - sum g y', 'dx']
>>> softmax.passed
True
"""

import html
from dataclasses import dataclass

import numpy as np

from .numbers import format_array
from .walkthroughs import WALKTHROUGHS

STEP = 1e-5
TOLERANCE = 1e-7
_MIN_REMARK_WIDTH = 16  # narrowest column of formulas and notes in a table [columns]
PARTS = {
    "forward": "Forward",
    "backward": "Backward",
    "jacobian": "Jacobian",
    "check": "Check",
}


@dataclass
class Line:
    """One line of an explanation: name, formula, value (or None), and note."""

    part: str
    name: str
    formula: str
    value: object = None
    note: str = ""


class Explanation:
    """A walkthrough of one operation: its ``lines``, and whether all checks ``passed``.

    Displayed as plain text, as an HTML table in a notebook, and with colors on a terminal.
    """

    def __init__(self):
        self.lines = []
        self.passed = True
        self.operation = self.formula = ""

    # ----------------------------------------------------------------------------- methods for walkthroughs.py

    def title(self, operation, formula):
        """Set the operation and its formula."""
        self.operation, self.formula = operation, formula

    def forward(self, name, formula, value, note=""):
        """Add a line of the forward pass; returns ``value``."""
        self.lines.append(Line("forward", name, formula, value, note))
        return value

    def backward(self, name, formula, value, note=""):
        """Add a line of the backward pass; returns ``value``."""
        self.lines.append(Line("backward", name, formula, value, note))
        return value

    def note(self, text):
        """Add a note below the last line."""
        self.lines.append(Line(self.lines[-1].part, "", "", None, text))

    def jacobian(self, formula, matrix, cotangent, result, names=("g", "dx")):
        """Add the Jacobian, if it has at most 8 rows, and check its product with the cotangent against ``result``."""
        if matrix.shape[0] > 8:
            note = f"{matrix.shape[0]} by {matrix.shape[1]}, too large to print"
            self.lines.append(Line("jacobian", "J", formula, None, note))
        else:
            self.lines.append(Line("jacobian", "J", formula, matrix))
        difference = np.abs(cotangent @ matrix - result).max()
        self._verdict("jacobian", f"{names[0]} J - {names[1]}", difference)

    def check(self, function, inputs, cotangent, output):
        """Check the walkthrough against the engine's rule and against central differences.

        Args:
            function: ``function(ta, *tensors)`` calls the operation.
            inputs: one tuple (name, array, gradient from the walkthrough) per input.
            cotangent: array, the cotangent of the output.
            output: array, the output from the walkthrough.
        """
        import tinyattn as ta

        with ta.reference(), ta.enable_grad():
            tensors = [ta.tensor(array, requires_grad=True) for _, array, _ in inputs]
            result = function(ta, *tensors)
            self._verdict("check", "output: rule - steps", _gap(result.numpy(), output))
            gradients = ta.grad(result, tensors, grad_outputs=ta.tensor(np.asarray(cotangent)))
            for (name, _, by_steps), gradient in zip(inputs, gradients):
                self._verdict(
                    "check",
                    f"d{name}: rule - steps",
                    _gap(gradient.numpy(), by_steps),
                )
            for place, (name, _, by_steps) in enumerate(inputs):
                numeric = _central_differences(ta, function, inputs, place, cotangent)
                # Doubling the step quadruples the truncation error and halves the rounding error.
                coarse = _central_differences(ta, function, inputs, place, cotangent, 2 * STEP)
                rounding = np.finfo(float).eps * np.abs(output * np.asarray(cotangent)).sum() / STEP
                self.lines.append(
                    Line("check", f"d{name}", f"(f(x + h) - f(x - h)) / 2h, h = {STEP:g}", numeric)
                )
                gap = _gap(numeric, by_steps)
                self._verdict(
                    "check", f"d{name}: differences - steps", gap, _gap(numeric, coarse) + rounding
                )

    def _verdict(self, part, name, gap, uncertainty=0.0):
        passed = bool(gap <= TOLERANCE + uncertainty)
        self.passed &= passed
        verdict = "agrees" if passed else f"DIFFERS by more than {TOLERANCE + uncertainty:.1g}"
        if passed and gap > TOLERANCE:
            verdict = f"agrees, within the error of finite differences, {uncertainty:.1g}"
        self.lines.append(Line(part, name, "largest difference", gap, verdict))

    # ------------------------------------------------------------------------------------------------- display

    def _sections(self):
        """Yield the heading and the lines of each part that has lines."""
        for part, heading in PARTS.items():
            if lines := [line for line in self.lines if line.part == part]:
                yield heading, lines

    def __str__(self):
        text = [self.operation, "  " + self.formula]
        for heading, lines in self._sections():
            text += ["", heading]
            width = max((len(line.name) for line in lines if line.value is not None), default=0)
            for line in lines:
                text += _plain(line, width)
        return "\n".join(text)

    def __repr__(self):
        return str(self)

    def _repr_html_(self):
        rows = []
        for heading, lines in self._sections():
            rows.append(f'<tr><th colspan="4" style="text-align:left">{heading}</th></tr>')
            for line in lines:
                value = "" if line.value is None else "\n".join(format_array(line.value))
                cells = [html.escape(text) for text in (line.name, line.formula, value, line.note)]
                cells[2] = f"<pre style='margin:0'>{cells[2]}</pre>"
                rows.append(
                    "<tr>"
                    + "".join(f"<td style='text-align:left'>{c}</td>" for c in cells)
                    + "</tr>"
                )
        head = (
            f"<caption><b>{html.escape(self.operation)}</b>: {html.escape(self.formula)}</caption>"
        )
        return f"<table>{head}{''.join(rows)}</table>"

    def __rich_console__(self, console, options):
        from rich.table import Table
        from rich.text import Text

        yield Text.assemble((self.operation, "bold"), "  ", (self.formula, "cyan"))
        for heading, lines in self._sections():
            yield Text(f"\n{heading}", "bold")
            values = [[] if line.value is None else format_array(line.value) for line in lines]
            name_width = max(len(line.name) for line in lines)
            value_width = max(len(row) for rows in values for row in rows)
            if name_width + value_width + 4 + _MIN_REMARK_WIDTH > options.max_width:
                for line in lines:
                    yield Text("\n".join(_plain(line, name_width)), overflow="fold")
                continue
            table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
            table.add_column(style="bold cyan", no_wrap=True)
            table.add_column(no_wrap=True)
            table.add_column(style="dim")
            for line, value in zip(lines, values):
                style = {"DIFFERS": "bold red", "agrees": "green"}.get(line.note.split(",")[0], "")
                remark = Text.assemble(line.formula, "  " * bool(line.formula), (line.note, style))
                table.add_row(Text(line.name), Text("\n".join(value)), remark)
            yield table


def explain(operation, x=None, cotangent=None, **more):
    """Explain the forward and backward pass of an operation with numbers, and check the result.

    Args:
        operation: ``"softmax"``, ``"layer_norm"``, ``"matmul"``, ``"cross_entropy"``, ``"gelu"`` or ``"attention"``.
        x: the input: a string such as ``"1 2 3"`` or ``"1 0; 0 1"``, or an array; a small example by default.
        cotangent: the gradient of the output, in the same format; by default 1 for one element and 0 for the others.
        more: ``y``, the second matrix of ``matmul``; ``target``, the target class of ``cross_entropy``.

    Returns:
        An ``Explanation``.

    Raises:
        ValueError: for an unknown operation, numbers that cannot be parsed, and incompatible shapes.

    >>> print(explain("cross_entropy", x="0 0").lines[5].note)
    nats
    """
    if operation not in WALKTHROUGHS:
        raise ValueError(f"cannot explain {operation!r}: expected one of {', '.join(WALKTHROUGHS)}")
    more = {name: value for name, value in more.items() if value is not None}
    steps = Explanation()
    try:
        WALKTHROUGHS[operation](steps, x, cotangent, **more)
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        raise ValueError(f"{operation} takes no {' and no '.join(more)}") from None
    return steps


def _plain(line, width):
    if line.value is None:
        body = [line.formula] if line.formula else []
        return ["  " + " ".join([line.name, *body]).strip()] * bool(line.name or body) + (
            [f"  {'':<{width}}   ({line.note})"] if line.note else []
        )
    values = format_array(line.value)
    right = ", ".join(text for text in (line.formula, line.note) if text)
    rows = [f"  {line.name:<{width}} = {values[0]}"] + [
        f"  {'':<{width}}   {v}" for v in values[1:]
    ]
    if right:
        rows[0] += f"   {right}"
    return rows


def _central_differences(ta, function, inputs, place, cotangent, h=STEP):
    arrays = [array for _, array, _ in inputs]
    numeric = np.zeros_like(arrays[place])

    def loss(array):
        given = [*arrays[:place], array, *arrays[place + 1 :]]
        with ta.no_grad():
            return float((function(ta, *map(ta.tensor, given)).numpy() * cotangent).sum())

    for index in np.ndindex(numeric.shape):
        step = np.zeros_like(numeric)
        step[index] = h
        numeric[index] = (loss(arrays[place] + step) - loss(arrays[place] - step)) / (2 * h)
    return numeric


def _gap(one, other):
    return float(np.max(np.abs(np.asarray(one) - np.asarray(other)), initial=0.0))
