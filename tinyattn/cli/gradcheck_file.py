"""``tinyattn gradcheck FILE.py:FORWARD,BACKWARD`` and ``FILE.py:FUNCTION``: gradients of the user's own functions.

An error in the file is reported in one sentence, with its line, and the exit status is 2.
"""

import contextlib
import functools
import json
import shlex
import sys
import time

import numpy as np

from ..checker import GradcheckError, GradcheckInconclusive, gradient_report
from ..checker.report import CANNOT_TELL, RIGHT, WRONG
from ..data import InputError
from ..data.atomic import write_atomic
from ..mutation.mutants import mutants
from ..mutation.score import caught_by, score
from ..mutation.sources import ProjectCopy
from .user_file import errors_with_lines, load_functions, random_inputs

EXIT_STATUS = {RIGHT: 0, WRONG: 1, CANNOT_TELL: 3}


def is_target(text):
    """Whether the argument of ``tinyattn gradcheck`` names functions of a file.

    >>> is_target("rule.py:forward,backward"), is_target("runs/shake")
    (True, False)
    """
    return ".py:" in text or text.endswith(".py")


def check_file(target, *, inputs, framework, seed, order, mode, html, as_json, with_mutants, tests):
    """Check the functions of a file, print the result, and return the exit status.

    Args:
        target: ``FILE.py:FORWARD,BACKWARD`` or ``FILE.py:FUNCTION``.
        inputs: shapes and dtypes, such as ``"3x4, 4:float32"``.
        framework: "torch", "jax" or "tinyattn", if the file does not determine it.
        seed: of inputs and cotangent.
        order, mode: as ``gradcheck`` takes them.
        html: the file to write a page to.
        as_json: print the report as JSON, and nothing else.
        with_mutants: apply mistakes to the backward pass and count those that are missed.
        tests: a command that judges the mutants instead of the check.
    """
    if tests is not None and not with_mutants:
        raise InputError("--tests judges mutants: give --mutants as well")
    if with_mutants and html:
        raise InputError("--mutants writes no page: leave --html out")
    started = time.perf_counter()
    # What the file prints must not come between the lines of the JSON.
    with contextlib.redirect_stdout(sys.stderr):
        functions = load_functions(target, framework)
        arrays = random_inputs(inputs, functions, seed)
        check = functools.partial(
            _report, functions, arrays, seed=seed, order=order, mode=mode, curves=html is not None
        )
        report = check(find_fault=not with_mutants)
    words = ["tinyattn", "gradcheck", target, "--inputs", inputs, "--seed", str(seed)]
    words += ["--mode", mode] * (mode != "full") + ["--order", str(order)] * (order != 1)
    words += ["--framework", framework] if framework else []
    call = shlex.join(words)
    if isinstance(report, GradcheckError):
        return _print_refusal(report, functions, call, as_json)
    report.call, report.seconds = call, time.perf_counter() - started
    if html is not None:
        from ..checker.page import report_page

        write_atomic(html, report_page(report))
    if with_mutants and report.verdict == RIGHT:
        return _score(functions, check, tests, as_json)
    if as_json:
        print(json.dumps(report.to_json(), indent=2))
    else:
        _print_report(report, functions)
    return EXIT_STATUS[report.verdict]


def _report(functions, arrays, find_fault=False, **settings):
    """The ``Report``, or the ``GradcheckError`` of a function that cannot be checked at all."""
    try:
        with np.errstate(all="ignore"), errors_with_lines(functions.path):
            return gradient_report(functions.fn, arrays, find_fault=find_fault, **settings)
    except GradcheckError as error:
        return error


def _print_refusal(error, functions, call, as_json):
    verdict = CANNOT_TELL if isinstance(error, GradcheckInconclusive) else WRONG
    if as_json:
        document = {"version": 1, "verdict": verdict, "function": functions.name, "call": call}
        print(json.dumps({**document, "error": str(error)}, indent=2))
    else:
        print(f"{error}\n  reproduce   {call}")
    return EXIT_STATUS[verdict]


def _print_report(report, functions):
    width = max(8, *(len(argument.name) for argument in report.arguments))
    print(f"{'argument':{width}s} {'shape':>12s} {'checked':>8s} {'error bars':>11s}  verdict")
    for argument in report.arguments:
        shape = "x".join(map(str, argument.shape)) or "scalar"
        bars = f"{argument.worst[0].bars:.2g}" if argument.worst else "-"
        print(
            f"{argument.name:{width}s} {shape:>12s} {argument.checked:8,d} {bars:>11s}  {argument.verdict}"
        )
    for argument in report.arguments:
        if argument.precision is not None:
            print(f"note: {argument.name}: {argument.precision}")
    for name, kink in report.kinks[:5]:
        print(f"note: not checked, {name} has a kink: {kink}")
    for argument in report.arguments:
        if not argument.has_influence:
            print(
                f"note: {argument.name} has no influence on the outputs: its gradient of 0 is no evidence"
            )
    for finding in report.findings:
        print(f"{'finding' if finding.is_error else 'note'}: {finding}")
    error = report.error()
    if error is not None:
        print(f"\n{error}")
    checked = sum(argument.checked for argument in report.arguments)
    what = "elements" if report.mode == "full" else "directions"
    print(
        f"{report.verdict}: {functions.name}, {checked:,} {what}, "
        f"{report.evaluations:,} evaluations in {report.seconds:.1f} s"
    )


# ------------------------------------------------------------------------------------------------------- mutants


def _score(functions, check, tests, as_json):
    """Run the check on mutants of the backward pass; print those that it misses, and return 1 if there are any."""
    backward = functions.backward
    try:
        changes = list(mutants(backward))
    except (ValueError, TypeError, OSError, SyntaxError) as error:
        raise InputError(f"--mutants: {error}") from error
    if not changes:
        raise InputError(f"--mutants: there is nothing to change in {functions.backward_name}")
    if tests is None:

        def is_caught():
            report = check()
            return isinstance(report, GradcheckError) or report.verdict != RIGHT

        with contextlib.redirect_stdout(sys.stderr):
            outcomes = list(score(backward, changes, functools.partial(caught_by, is_caught)))
    else:
        try:
            with ProjectCopy(functions.path) as copy:
                outcomes = list(copy.score(backward, changes, tests))
        except ValueError as error:
            raise InputError(f"--tests: {error}") from error
    missed = [change for change, caught in outcomes if not caught]
    judge = "gradcheck" if tests is None else tests
    if as_json:
        entries = [
            {
                "line": change.line,
                "kind": change.kind,
                "before": change.before,
                "after": change.after,
                "caught": caught,
            }
            for change, caught in outcomes
        ]
        document = {"version": 1, "function": functions.backward_name, "judge": judge}
        print(json.dumps({**document, "missed": len(missed), "mutants": entries}, indent=2))
    else:
        for change in missed:
            print(f"missed  {functions.path.name}:{change.line}  {change.kind}")
            print(f"        {change.before}  ->  {change.after}")
        caught = len(outcomes) - len(missed)
        print(f"{judge} catches {caught} of {len(outcomes)} mistakes in {functions.backward_name}")
    return 1 if missed else 0
