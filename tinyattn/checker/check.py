"""``gradcheck`` and ``gradient_report``: run a check from the inputs to the ``Report``."""

import time
import warnings

import numpy as np

from ..autograd import Tensor
from .adapters import ADAPTERS
from .bits import same_bits
from .containers import flatten
from .directions import MAX_EVALUATIONS, measure_directions
from .elements import measure_elements
from .findings import findings_of
from .precision import UNIT_ROUNDOFFS, is_low, measure_precision
from .report import GradcheckError, GradcheckInconclusive, GradcheckWarning, Report
from .reproduce import call_text
from .settings import Settings, generator, signed_sizes


def gradcheck(
    fn,
    inputs,
    *,
    params=(),
    eps=None,
    rtol=None,
    atol=None,
    mode="full",
    order=1,
    seed=0,
    cotangent=None,
    directions=3,
    oracle="difference",
    upcast=False,
):
    """Check the gradients of ``fn`` at one point; return True or raise ``GradcheckError``.

    The outputs are contracted with a random cotangent. With a cotangent of ones, a softmax or a layer_norm whose
    gradients are all zero would pass, because their outputs sum to a constant.

    Each element of the gradient is compared with a numeric derivative that comes with an error bar, an estimate of its
    truncation and rounding error. It is wrong if it is more than 8 error bars off, right if it is not and the bar is
    small enough to detect a relative error of 1e-6, and otherwise inconclusive. No tolerance is needed; ``rtol`` and
    ``atol`` replace the error bars by |a - n| <= atol * min(1, largest entry of that gradient) + rtol * |n|. A
    ``GradcheckWarning`` reports a kink at the point if the gradient lies between the one-sided slopes, and an input
    that has no influence on the outputs.

    Args:
        fn: a function of tensors that returns a Tensor, or a container of them. Likewise a PyTorch function,
            ``torch.autograd.Function`` or module, a JAX function or ``custom_vjp``, and a pair ``(forward, backward)``
            of functions of NumPy arrays, called as ``forward(*arrays)`` and ``backward(cotangent, *arrays)``.
        inputs: its arguments: a tuple or list for several, anything else for one. Lists, tuples, dicts and dataclasses
            are searched for tensors and arrays. Floating-point ones are checked (only those with ``requires_grad``, if
            any has it); everything else is passed on. The inputs are copied, never written to.
        params: a module, or its parameters: tensors that ``fn`` uses but does not take as arguments.
        eps: the first step of the differences, relative for elements larger than 1; chosen automatically if None.
        rtol, atol: tolerances instead of error bars, if any of them is given.
        mode: ``"full"`` checks every element; ``"fast"`` checks ``directions`` random directions with at most 40
            evaluations for any number of elements, and finds wrong elements by bisection. ``"directional"`` is another
            name for it.
        order: 2 also checks the gradients of the gradients, with respect to the inputs and the cotangent.
        directions: number of random directions of the fast mode.
        seed: seed of the cotangent and of the directions.
        cotangent: an array, or one for each output, instead of the random one.
        oracle: ``"complex"`` uses complex-step slopes, exact to rounding, for analytic functions.
        upcast: check only a float64 copy of float32 or float16 inputs. Otherwise the low-precision gradient is
            compared with that of the copy as well, with an error budget in units in the last place.

    Returns:
        True.

    Raises:
        GradcheckInconclusive: if no gradient is wrong and some are inconclusive, or if the function has a kink
            everywhere; a subclass of ``GradcheckError``.
        GradcheckError: if a gradient is wrong, if the function is not deterministic, changes its inputs or computes
            in less than float64 for float64 inputs, or if no element could be checked.
        TypeError: if an input is complex, or if there is nothing to check.
        ValueError: for invalid settings.

    Source: central differences of the inner product <cotangent, fn> with the extrapolation of C. J. F. Ridders (1982);
    ``checker/ladder.py`` derives the error bars, ``checker/judge.py`` the verdict.

    >>> import numpy as np, tinyattn as ta
    >>> ta.gradcheck(ta.softmax, ta.tensor(np.array([[0.3, -1.2, 0.8]])), order=2)
    True
    """
    report = gradient_report(
        fn,
        inputs,
        params=params,
        eps=eps,
        rtol=rtol,
        atol=atol,
        mode=mode,
        order=order,
        seed=seed,
        cotangent=cotangent,
        directions=directions,
        oracle=oracle,
        upcast=upcast,
        find_fault=True,
    )
    error = report.error()
    if error is not None:
        raise error
    for finding in report.findings:
        warnings.warn(str(finding), GradcheckWarning, stacklevel=2)
    for argument in report.arguments:
        for kink_found in argument.kinks[:3]:
            message = f"not checked, {argument.name} has a kink: {kink_found}"
            warnings.warn(message, GradcheckWarning, stacklevel=2)
        if len(argument.kinks) > 3:
            message = f"and {len(argument.kinks) - 3} more kinks in {argument.name}"
            warnings.warn(message, GradcheckWarning, stacklevel=2)
        # At second order it is the gradient that does not depend on the input: the function is linear in it.
        if not argument.has_influence and argument.order == 1:
            message = (
                f"{argument.name} has no influence on the outputs: its gradient of 0 is no evidence"
            )
            warnings.warn(message, GradcheckWarning, stacklevel=2)
    return True


def gradient_report(
    fn, inputs, *, params=(), cotangent=None, upcast=False, find_fault=False, **settings
):
    """Run the check of ``gradcheck``, with the same arguments, and return a ``Report`` whether it passes or not.

    With ``find_fault``, each operation of the function is checked separately if the check fails, to name the wrong one.
    With ``curves=True``, each argument's report has the full ``Ladder`` of its worst element.
    """
    started = time.perf_counter()
    settings = Settings(**settings)
    problem = problem_of(fn, inputs, params, np.float64 if upcast else None)
    problem.call = problem.call or call_text(fn, inputs, params, settings, upcast)
    report = report_of(problem, settings, cotangent, find_fault)
    report.seconds = time.perf_counter() - started
    return report


def problem_of(fn, inputs, params=(), dtype=None):
    """The ``Problem`` of a call of ``gradcheck``, made by the first of ``ADAPTERS`` that accepts the function.

    Raises:
        TypeError: if an input is complex, or if there is nothing to check.
    """
    for adapt in ADAPTERS:
        problem = adapt(fn, inputs, params, dtype)
        if problem is not None:
            break
    if not problem.arguments:
        leaves = flatten(inputs, "inputs")
        kinds = ", ".join(sorted({type(leaf).__name__ for _, leaf in leaves})) or "nothing"
        raise TypeError(
            f"there is nothing to check: the inputs hold {kinds}, expected a floating-point tensor or array; "
            "to check a module's parameters, pass params=module"
        )
    for argument in problem.arguments:
        given = argument.start.dtype
        if given.kind == "c":
            raise TypeError(
                f"{argument.name} is {given}: gradients of complex numbers are not checked"
            )
        if argument.precision not in UNIT_ROUNDOFFS:
            raise TypeError(
                f"{argument.name} is {argument.precision}: expected one of {', '.join(UNIT_ROUNDOFFS)}"
            )
    return problem


def report_of(problem, settings, cotangent=None, find_fault=False):
    """The ``Report`` of a ``Problem``: the check itself, whatever the framework.

    A problem in low precision is checked at a float64 copy of the point; its gradient is compared with the copy's.
    """
    if is_low(problem):
        return _low_precision_report(problem, settings, cotangent, find_fault)
    with problem.running():
        evaluations_before = problem.evaluations
        base = _validated_values(problem, calls=2 if settings.mode == "full" else 1)
        cotangents = _cotangents(base, cotangent, settings, purpose="cotangent")
        reports, findings = _first_order(
            problem, cotangents, settings, base, evaluations_before, redraw=cotangent is None
        )
        if all(not r.failures for r in reports) and not any(r.has_influence for r in reports):
            if any(r.checked for r in reports):
                raise GradcheckError("none of the inputs has any influence on the outputs")
        if settings.order == 2 and not any(report.failures for report in reports):
            reports += _second_order(problem, cotangents, settings)
        checked, kinks = sum(r.checked for r in reports), sum(len(r.kinks) for r in reports)
        if checked and checked == kinks:
            kink_found = next(report for report in reports if report.kinks).kinks[0]
            raise GradcheckInconclusive(
                f"nothing could be checked, the function has a kink everywhere: {kink_found}"
            )
        report = Report(
            function=problem.name,
            arguments=reports,
            seed=settings.seed,
            mode=settings.mode,
            operations=problem.operations(),
            call=problem.call,
            findings=findings,
        )
        if any(argument.failures for argument in reports):
            _assert_deterministic(problem, base=None)
            if find_fault:
                report.searched = bool(report.operations)
                report.culprit = _culprit(problem, cotangents)
    report.evaluations = problem.evaluations
    return report


def _low_precision_report(low, settings, cotangent, find_fault):
    """The report of the float64 copy, with the ``Precision`` of the low-precision gradients and their findings."""
    with low.running():
        outputs = low.values()
    wide = [np.asarray(value, np.float64) for value in outputs]
    cotangents = _cotangents(wide, cotangent, settings, purpose="cotangent")
    rounded = [c.astype(value.dtype) for c, value in zip(cotangents, outputs, strict=True)]
    cotangents = [c.astype(np.float64) for c in rounded]
    exact = low.with_dtype(np.float64)
    exact.call = low.call
    report = report_of(exact, settings, cotangents, find_fault)
    measured = measure_precision(low, exact, rounded, cotangents)
    firsts = [argument for argument in report.arguments if argument.order == 1]
    for argument, source, precision in zip(firsts, low.arguments, measured, strict=True):
        argument.dtype, argument.precision = source.precision, precision
    with low.running():
        returned = low.gradients(rounded)
        held = [None if gradient is None else gradient.copy() for gradient in returned]
        report.findings += findings_of(low, rounded, returned, held)
    report.evaluations = exact.evaluations + low.evaluations
    return report


def _first_order(problem, cotangents, settings, base, evaluations_before, redraw):
    """``(reports, findings)``: the ``ArgumentReport``s and ``Finding``s of the gradients."""
    returned = problem.gradients(cotangents)
    _assert_shapes(problem, returned)
    # Copies: a backward pass may write its next gradients into the arrays that it returned.
    analytic = [None if gradient is None else gradient.copy() for gradient in returned]
    spent = problem.evaluations - evaluations_before + 2  # in findings_of, and for the operations
    reports = _measured(problem, cotangents, settings, base, analytic, spent, redraw)
    return reports, findings_of(problem, cotangents, returned, analytic)


def _second_order(problem, cotangents, settings):
    """The ``ArgumentReport``s of the gradients of the gradients."""
    evaluations_before = problem.evaluations
    second = problem.second_order(cotangents)
    base = second.values()
    cotangents = _cotangents(base, None, settings, purpose="second cotangent")
    analytic = second.gradients(cotangents)
    spent = second.evaluations - evaluations_before
    return _measured(second, cotangents, settings, base, analytic, spent, redraw=True)


def _measured(problem, cotangents, settings, base, analytic, spent, redraw):
    """The ``ArgumentReport``s of the gradients ``analytic``, after ``spent`` evaluations of the function."""
    assert_unchanged(problem)
    _assert_shapes(problem, analytic)
    if settings.mode == "fast":
        left = MAX_EVALUATIONS - spent
        reports = measure_directions(problem, cotangents, settings, base, analytic, left)
    else:
        reports = measure_elements(problem, cotangents, settings, base, analytic, redraw)
    assert_unchanged(problem)
    return reports


def _assert_shapes(problem, gradients):
    for argument, gradient in zip(problem.arguments, gradients, strict=True):
        if gradient is not None and gradient.shape != argument.shape:
            raise GradcheckError(
                f"the gradient of {argument.name} has the shape {gradient.shape}, expected {argument.shape}, "
                f"the shape of {argument.name}",
                op=problem.name,
                argument=argument.name,
            )


def assert_unchanged(problem):
    """Raise ``GradcheckError`` if the function wrote to one of its arguments."""
    for argument in problem.arguments:
        if not argument.unchanged():
            raise GradcheckError(
                f"the function changes its input {argument.name} in place: its gradient cannot be checked there, "
                "because the point moves. Work on a copy inside the function.",
                argument=argument.name,
            )


def _culprit(problem, cotangents):
    try:
        return problem.culprit(cotangents)
    except (GradcheckError, TypeError, ValueError, RuntimeError):
        return None  # an operation cannot be checked on its own: the report names the function


def _validated_values(problem, calls):
    """The outputs at the point; raises ``GradcheckError`` unless they are float64 and reproducible."""
    base = problem.values()
    assert_unchanged(problem)
    for position, value in enumerate(base):
        if value.dtype != np.float64:
            raise GradcheckError(
                f"output {position} of {problem.name} is {value.dtype} although its inputs are float64: something "
                "inside computes in less than float64, and differences of it are rounding noise",
                op=problem.name,
            )
    _assert_deterministic(problem, base, calls)
    return base


def _assert_deterministic(problem, base, calls=2):
    """Raise ``GradcheckError`` if another call gives other values; ``base``: those of an earlier call, if known."""
    base = problem.values() if base is None else base
    for _ in range(calls):
        again = problem.values()
        for position, (one, other) in enumerate(zip(base, again, strict=True)):
            if one.shape != other.shape or not _equal_but_for_rounding(one, other):
                raise GradcheckError(
                    f"the function is not deterministic: called twice with the same inputs, its output {position} "
                    f"{_distance(one, other)}. If it draws random numbers (dropout), seed them inside the "
                    "function, pass the mask in, or switch the module to eval()."
                )


def _equal_but_for_rounding(one, other):
    if same_bits(one, other):
        return True
    scale = np.max(np.abs(one[np.isfinite(one)]), initial=0.0)
    return np.allclose(one, other, rtol=0.0, atol=1e-12 * scale, equal_nan=True)


def _distance(one, other):
    if one.shape != other.shape:
        return f"has the shape {one.shape} and then {other.shape}"
    return f"differs by {np.nanmax(np.abs(one - other)):.3g}"


def _cotangents(base, cotangent, settings, purpose):
    """The given cotangents, or random ones: standard normal, in the fast mode none of them near zero."""
    if cotangent is None:
        random = generator(settings.seed, purpose)
        draw = signed_sizes if settings.mode == "fast" else np.random.Generator.standard_normal
        return [draw(random, value.shape) for value in base]
    given = [leaf for _, leaf in flatten(cotangent, "cotangent")]
    hosts = [np.asarray(c.numpy() if isinstance(c, Tensor) else c, np.float64) for c in given]
    if [c.shape for c in hosts] != [value.shape for value in base]:
        raise ValueError(
            f"cotangent has the shapes {[c.shape for c in hosts]}, "
            f"expected those of the outputs, {[value.shape for value in base]}"
        )
    return hosts
