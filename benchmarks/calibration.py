"""How often the gradient checker is wrong about gradients of which the truth is known.

A draw is a rule of the library, one of its cases, a random point, a scale from 1e-8 to 1e8 for each input, and one
random element. The checker judges the gradient of the rule there, which is right, and then the same gradient with that
element wrong by a relative 1e-6 to 1. Counted are right gradients called wrong (false alarms) and wrong ones called
right (misses). Draws are left out where the function or the element's derivative is not finite. Two groups of elements
are counted separately: those below ten times the largest rounding error in the gradient of their argument, and, of
these, those below ten times their own rounding error. The latter consist of rounding errors: an error that is planted
there is within the accuracy of the right gradient, which may be called right.
"""

import contextlib
import time
import warnings
from collections import Counter
from dataclasses import dataclass

import numpy as np

from tinyattn.autograd import PRIMITIVES, Tensor, reference
from tinyattn.backend import is_array
from tinyattn.checker.culprit import call_of_primitive
from tinyattn.checker.elements import Elements
from tinyattn.checker.noise import Noise
from tinyattn.checker.report import CANNOT_TELL, RIGHT, WRONG
from tinyattn.checker.settings import Settings
from tinyattn.checker.tensors import tensor_problem
from tinyattn.survey.cases import CASES

DRAWS = 30_000
MAX_ELEMENTS = 2000


@dataclass
class Draw:
    """One element of one gradient, and what the checker says of it.

    Attributes:
        what: the rule and its case.
        right: the verdict on the right gradient, or "kink".
        wrong: the verdict on the wrong one; None where the element is zero, so that no relative error exists.
        error: the relative error of the wrong gradient.
        group: "visible", "small" (below ten times the largest rounding error in the argument's gradient), or "rounding"
            (below ten times its own rounding error).
        bars: the error of the right gradient in error bars.
    """

    what: str
    right: str
    wrong: str | None = None
    error: float = 0.0
    group: str = "visible"
    bars: float = 0.0


def draw(seed):
    """The ``Draw`` of a seed; None where there is nothing finite to judge."""
    random = np.random.default_rng([seed, 77])
    name = random.choice(sorted(CASES))
    case = CASES[name][random.integers(len(CASES[name]))] if CASES[name] else None
    if case is None:
        return None
    inputs = [_scaled(value, random) for value in case.draw(seed)]
    call, checked = call_of_primitive(PRIMITIVES[name], inputs, case.parameters)
    if not checked or sum(tensor.size for tensor in checked) > MAX_ELEMENTS:
        return None
    as_rule = random.random() < 0.5
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with reference() if as_rule else contextlib.nullcontext():
            return _judge(f"{name}({case})", tensor_problem(call, checked), random)


def _scaled(value, random):
    """An input as a tensor, floating-point arrays times a power of ten."""
    if not is_array(value):
        return value
    if value.dtype.kind == "f":
        value = np.asarray(value * 10.0 ** random.uniform(-8, 8))
    return Tensor(value)


def _judge(what, problem, random):
    positions = [k for k, argument in enumerate(problem.arguments) if argument.start.size]
    if not positions:
        return None
    position = int(random.choice(positions))
    index = tuple(int(random.integers(n)) for n in problem.arguments[position].shape)
    base = problem.values()
    cotangents = [random.standard_normal(value.shape) for value in base]
    analytic = problem.gradients(cotangents)
    truth = 0.0 if analytic[position] is None else float(analytic[position][index])
    if not (np.isfinite(truth) and all(np.isfinite(value).all() for value in base)):
        return None
    noise = Noise(problem, cotangents, base, analytic)

    def element(gradients):
        elements = Elements(problem, position, gradients, cotangents, Settings(), base, noise)
        report = elements.by_differences([index])
        return report.worst[0] if report.worst else None

    judged = element(analytic)
    drawn = Draw(what, judged.verdict if judged else "kink", bars=judged.bars if judged else 0.0)
    if truth and judged:
        drawn.error = float(10.0 ** random.uniform(-6, 0) * random.choice([-1.0, 1.0]))
        rounding = noise.gradients[position]
        if abs(truth) <= 10 * rounding[index]:
            drawn.group = "rounding"
        elif abs(truth) < 10 * float(np.max(rounding)):
            drawn.group = "small"
        wrong = list(analytic)
        wrong[position] = analytic[position].copy()
        wrong[position][index] *= 1 + drawn.error
        judged = element(wrong)
        drawn.wrong = judged.verdict if judged else "kink"
    return drawn


def table(draws):
    """The counts as rows of text."""
    right = Counter(d.right for d in draws)
    wrong = {
        group: Counter(d.wrong for d in draws if d.wrong and d.group == group)
        for group in ("visible", "small", "rounding")
    }
    verdicts = (RIGHT, WRONG, CANNOT_TELL, "kink")
    rows = [f"| {'gradient':42s} | draws | " + " | ".join(f"{v:>11s}" for v in verdicts) + " |"]
    rows.append("|---|---|---|---|---|---|")
    for label, counts in (
        ("right", right),
        ("one element wrong by 1e-6 to 1", wrong["visible"]),
        ("the same, in a small element", wrong["small"]),
        ("the same, in an element of rounding errors", wrong["rounding"]),
    ):
        cells = " | ".join(f"{counts[v]:11d}" for v in verdicts)
        rows.append(f"| {label:42s} | {sum(counts.values()):5d} | {cells} |")
    return rows


def run(quick=False):
    """Print the table and return the counts."""
    started, wanted = time.perf_counter(), 300 if quick else DRAWS
    draws, seed = [], 0
    while len(draws) < wanted:
        drawn = draw(seed)
        seed += 1
        if drawn is not None:
            draws.append(drawn)
    print("\n".join(table(draws)))
    alarms = [d for d in draws if d.right == WRONG]
    misses = [d for d in draws if d.wrong == RIGHT]
    for label, cases in (("false alarm", alarms), ("miss", misses)):
        for d in cases[:20]:
            print(f"{label}: {d.what}, error {d.error:.2g}, {d.group}")
    largest = max(d.bars for d in draws if d.right == RIGHT)
    print(f"right gradients are up to {largest:.2g} error bars off")
    return {
        "draws": len(draws),
        "false_alarms": len(alarms),
        "misses": len([d for d in misses if d.group != "rounding"]),
        "misses_in_rounding": len([d for d in misses if d.group == "rounding"]),
        "right": dict(Counter(d.right for d in draws)),
        "wrong": dict(Counter(d.wrong for d in draws if d.wrong)),
        "largest_error_in_bars": largest,
        "seconds": time.perf_counter() - started,
    }
