"""``tinyattn gradcheck``: check the gradients of the library, a run, or a file against finite differences."""

import dataclasses
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from cyclopts import Parameter

from ..checker import gradient_report
from ..checker.report import CANNOT_TELL, RIGHT, WRONG
from ..data import InputError
from ..data.atomic import write_atomic
from ..data.paths import PathText, expand_path
from ..error_messages import did_you_mean, shown
from ..ranges import Seed
from ..survey.mutations import CHECKS, MUTATIONS, break_rule
from ..survey.tasks import tasks
from ..train.config import as_annotated
from ..train.loading import check_device, load_run
from .gradcheck_file import EXIT_STATUS, check_file, is_target
from .options import options
from .progress import Progress

NAME_WIDTH = 30
MARKS = {RIGHT: "", WRONG: "  WRONG", CANNOT_TELL: "  cannot tell"}
OF_A_FILE = ("inputs", "framework", "mode", "as_json", "with_mutants", "tests")  # options
OPTION_OF = {name: f"--{name}" for name in ("op", "device", *OF_A_FILE)} | {
    "broken": "--break",
    "as_json": "--json",
    "with_mutants": "--mutants",
}


@dataclass(frozen=True)
class GradcheckOptions:
    """Gradcheck options."""

    op: str | None = None
    """Check one operation or block [name]."""

    device: str | None = None
    """Device: cpu, cuda, cuda:N or strict; TINYATTN_DEVICE or cpu by default."""

    html: PathText | None = None
    """Write a page with the step-size curve of each operation [path]."""

    broken: Annotated[str | None, Parameter(name="--break")] = None
    """Apply known mutations to an operation's rule, such as softmax, and show which checks catch them."""

    order: Literal[1, 2] | None = None
    """2: check second-order gradients, too; by default 2, or 1 for the model of a run."""

    seed: Seed = 0
    """Random seed of inputs, cotangents and directions."""

    inputs: str | None = None
    """FILE.py: shapes of the arguments, such as "3x4, 4:float32"."""

    framework: Literal["torch", "jax", "tinyattn"] | None = None
    """FILE.py: framework of the function, if the file imports several."""

    mode: Literal["full", "fast"] | None = None
    """FILE.py: check every element (full), or a few random directions (fast)."""

    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False
    """FILE.py: print the report as JSON."""

    with_mutants: Annotated[bool, Parameter(name="--mutants", negative=())] = False
    """FILE.py: mutation testing of the backward pass; list the mutants that the check misses."""

    tests: str | None = None
    """FILE.py: test command to run on a copy of the file for each mutant, instead of the check."""


def add_to(app):
    app.command(gradcheck)


def gradcheck(
    run: Annotated[
        str | None,
        Parameter(
            help="Directory of a run, to check its model, or FILE.py:FORWARD,BACKWARD or FILE.py:FUNCTION; "
            "without it, the library is checked."
        ),
    ] = None,
    /,
    *,
    how: Annotated[GradcheckOptions, options()] = GradcheckOptions(),
):
    """Check gradients against finite differences; exit status 1 if one is wrong, 3 if inconclusive."""
    given = dataclasses.asdict(as_annotated(how))
    of_file = {name: given.pop(name) for name in OF_A_FILE}
    if run is not None and is_target(run):
        for name in ("op", "device", "broken"):
            if given.pop(name) is not None:
                raise InputError(f"{OPTION_OF[name]} cannot be combined with a function of a file")
        _check_page_path(given["html"])
        given["order"] = given["order"] or 1
        return check_file(run, **given, **of_file | {"mode": of_file["mode"] or "full"})
    for name, value in of_file.items():
        if value:
            raise InputError(
                f"{OPTION_OF[name]} is for functions of a file: give FILE.py:FORWARD,BACKWARD or FILE.py:FUNCTION"
            )
    path = None if run is None else expand_path(run, "the run")
    return check(path, **given)


def check(path=None, *, op=None, device=None, html=None, broken=None, order=None, seed=0):
    """Run the checks, print a table and a closing line, and return the exit status.

    Args:
        path: directory of a run whose model is checked; None checks the library.
        op: a primitive or a block; None checks all of them.
        device: the device to run on.
        html: the file to write the HTML page to.
        broken: a primitive whose known mutations are checked.
        order: 1 or 2; by default 2 for the library and 1 for the model of a run.
        seed: seed of inputs, cotangents and directions.
    """
    check_device(device)
    if broken is not None:
        if path or op or html:
            raise InputError("--break cannot be combined with RUN, --op and --html")
        return break_on_purpose(broken, seed)
    if path is not None:
        if op or html:
            raise InputError("a run's model is checked as a whole: leave --op and --html out")
        return check_run(path, device, order or 1, seed)
    _check_page_path(html)
    return survey(op, device, html, order or 2, seed)


def _check_page_path(html):
    if html is not None and not Path(html).parent.is_dir():
        raise InputError(f"--html: there is no directory {str(Path(html).parent)!r}")
    if html is not None and Path(html).is_dir():
        raise InputError(f"--html {html} is a directory: give the name of a file")


# ------------------------------------------------------------------------------------------------- the whole library


def survey(op, device, html, order, seed):
    """Check the primitives, kernels and blocks, and print the table."""
    started = time.perf_counter()
    chosen = _tasks(op, device, order, seed)
    print(
        f"{'checked':{NAME_WIDTH}s} {'as':7s} {'cases':>5s} {'absolute':>9s} {'relative':>9s} {'time':>7s}"
    )
    rows = []
    with Progress(len(chosen)) as progress:
        for name, task in chosen:
            progress.begin(name)
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                rows.append(task())
            progress.line(_table_line(rows[-1]), good=rows[-1].passed)
    for row in rows:
        for message in [*row.faults, *row.doubts][:3]:
            print(f"\n{message}")
    passed = all(row.passed for row in rows)
    verdict = _verdict(rows, order, time.perf_counter() - started)
    if html is not None:
        _write_page(html, rows, verdict, passed, order, device)
    print(verdict)
    return EXIT_STATUS[_worst(row.verdict for row in rows)]


def _worst(verdicts):
    return max(verdicts, key=(RIGHT, CANNOT_TELL, WRONG).index, default=RIGHT)


def _tasks(op, device, order, seed):
    """The tasks of the survey, or those named ``op``."""
    every = tasks(device, order, seed)
    chosen = [(name, task) for name, task in every if op in (None, name)]
    if not chosen:
        names = {name for name, _ in every}
        hint = did_you_mean(op, sorted(names), cutoff=0.4)
        raise InputError(
            f"--op: there is no operation or block {shown(op)}; "
            f"{hint or 'tinyattn gradcheck, without --op, checks and names them all'}"
        )
    return chosen


def _table_line(row):
    return (
        f"{row.name:{NAME_WIDTH}s} {row.version:7s} {row.cases:5d} {row.absolute_error:9.1e} "
        f"{row.relative_error:9.1e} {row.seconds:5.2f} s{MARKS[row.verdict]}"
    )


def _verdict(rows, order, seconds):
    orders = "first and second order" if order == 2 else "first order"
    verdict = _worst(row.verdict for row in rows)
    if verdict != RIGHT:
        such = [f"{row.name} ({row.version})" for row in rows if row.verdict == verdict]
        named = ", ".join(such[:6]) + (f" and {len(such) - 6} more" if len(such) > 6 else "")
        return f"{MARKS[verdict].strip()}: {len(such)} of {len(rows)}: {named} ({orders})"
    counts = {v: sum(row.version == v for row in rows) for v in ("rule", "kernel", "block")}
    parts = ", ".join(f"{n} {version}{'s' * (n != 1)}" for version, n in counts.items() if n)
    evaluations = sum(row.evaluations for row in rows)
    return f"all right: {parts}; {orders}; {evaluations:,} evaluations in {seconds:.0f} s"


def _write_page(path, rows, verdict, passed, order, device):
    from ..survey.curve import step_curve
    from ..survey.page import page

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        names = dict.fromkeys(row.name for row in rows if row.version == "rule")
        curves = [curve for name in names if (curve := step_curve(name, device)) is not None]
    orders = "First and second order" if order == 2 else "First order"
    settings = f"{orders}, float64, every element, against differences with error bars, on {device or 'cpu'}."
    write_atomic(path, page(rows, curves, verdict, passed, settings))


# --------------------------------------------------------------------------------------------------- one run's model


def check_run(path, device, order, seed):
    """Check the parameters of a trained model, one by one, along random directions."""
    loaded = load_run(path, device=device)
    model, random = loaded.model, np.random.default_rng(seed)
    length = min(loaded.config.architecture.block_size, 16)
    ids = random.integers(0, len(loaded.vocabulary), (2, length + 1))
    named = list(model.named_parameters())
    ids = _on_device_of(named[0][1], ids)

    def loss():
        return model.loss(ids[:, :-1], ids[:, 1:])

    loss.__name__ = f"the loss of {loaded.path.name}"
    print(
        f"{'parameter':{NAME_WIDTH}s} {'shape':>16s} {'absolute':>9s} {'relative':>9s} {'time':>7s}"
    )
    started = time.perf_counter()
    faults, verdicts = [], []
    with Progress(len(named)) as progress:
        for name, parameter in named:
            progress.begin(name)
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                report = _check_parameter(loss, named, name, order, seed)
            verdicts.append(report.verdict)
            if report.verdict != RIGHT:
                faults.append(report.error())
            progress.line(
                f"{name:{NAME_WIDTH}s} {parameter.shape!s:>16s} {report.absolute_error:9.1e} "
                f"{report.relative_error:9.1e} {report.seconds:5.2f} s{MARKS[report.verdict]}",
                good=report.verdict == RIGHT,
            )
    for fault in faults[:3]:
        print(f"\n{fault}")
    seconds = time.perf_counter() - started
    verdict = _worst(verdicts)
    if verdict != RIGHT:
        count = f"{verdicts.count(verdict)} of {len(named)}"
        print(f"{MARKS[verdict].strip()}: the gradients of {count} parameters of {path}")
        return EXIT_STATUS[verdict]
    print(
        f"all right: {len(named)} parameters of {path}, along random directions, in {seconds:.0f} s"
    )
    return 0


def _check_parameter(loss, named, checked, order, seed):
    """The ``Report`` for one parameter, with all parameters in float64 during the check."""
    own = [(parameter, parameter._data) for _, parameter in named]
    try:
        for parameter, array in own:
            parameter._data = array.astype(np.float64)
        return gradient_report(
            loss,
            (),
            params={checked: dict(named)[checked]},
            mode="fast",
            order=order,
            seed=seed,
        )
    finally:
        for parameter, array in own:
            parameter._data = array
            parameter.bump_version()


def _on_device_of(parameter, ids):
    from ..autograd import Tensor

    return Tensor(ids, device=parameter.device)


# --------------------------------------------------------------------------------------------------- known mutations


def break_on_purpose(name, seed):
    """Apply each known mutation of a rule and print which check catches it."""
    if name not in MUTATIONS:
        raise InputError(
            f"--break: no mutations are known for {shown(name)}; expected one of {', '.join(MUTATIONS)}"
        )
    print(f"{f'{name} whose gradient ...':44s} " + " ".join(f"{check:>10s}" for check in CHECKS))
    missed = dict.fromkeys(CHECKS, 0)
    for outcome in break_rule(name, seed):
        for check, caught in outcome.caught.items():
            missed[check] += not caught
        words = ["caught" if outcome.caught[check] else "missed" for check in CHECKS]
        mutation = outcome.mutation
        print(f"... {mutation.what:40s} {' '.join(f'{word:>10s}' for word in words)}")
        print(
            f"        {_shortened(mutation.before)}  ->  {_shortened(mutation.after)}", flush=True
        )
    counts = [f"{count} with {check}" for check, count in missed.items()]
    counts[0] = f"{missed['ones']} with the cotangent ones"
    print(f"missed of {len(MUTATIONS[name])} mutations: {', '.join(counts)}")
    return 0 if not missed["random"] else 1


def _shortened(code):
    """A piece of code, its last line, shortened, and in quotes if it begins or ends with a space or is empty."""
    code = code.splitlines()[-1].lstrip() if "\n" in code else code
    code = code if len(code) <= 44 else code[:41] + "..."
    return repr(code) if code != code.strip() or not code else code
