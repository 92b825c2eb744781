"""Check the gradients of any function against finite differences of its values."""

import time
import warnings

import numpy as np

from ..autograd import Tensor
from ..backend import is_array, native_dtype
from .containers import flatten
from .culprit import find_culprit, operations_of
from .measure import Settings, assert_unchanged, generator, measure_gradients
from .problem import Argument, FirstOrder, SecondOrder, named_parameters, parameters_swapped
from .report import GradcheckError, GradcheckWarning, Report
from .reproduce import call_text, function_name


def gradcheck(
    fn,
    inputs,
    *,
    params=(),
    eps=1e-6,
    rtol=1e-5,
    atol=1e-7,
    mode="full",
    order=1,
    seed=0,
    cotangent=None,
    directions=8,
    oracle="difference",
    upcast=False,
):
    """Check the gradients of ``fn`` at one point; return True or raise ``GradcheckError``.

    The outputs are contracted with a random cotangent. With a cotangent of ones, a softmax or a layer_norm whose
    gradients are all zero would pass, because their outputs sum to a constant.

    The gradient a of an element is right if |a - n| <= atol * min(1, largest entry of that gradient) + rtol * |n|,
    where n is a finite difference. The scale on ``atol`` lets the check see an error of a thousandth in a gradient of
    1e-8. Each element first gets a central difference with the step ``eps``; if that disagrees, Richardson
    extrapolation over larger steps decides. A ``GradcheckWarning`` reports a kink within the step if the gradient lies
    between the one-sided slopes, and an input that has no influence on the outputs.

    Args:
        fn: a function of tensors that returns a Tensor, or a container of them.
        inputs: its arguments: a tuple or list for several, anything else for one. Lists, tuples, dicts and dataclasses
            are searched for tensors and arrays. Floating-point ones are checked (only those with ``requires_grad``, if
            any has it); everything else is passed on. The inputs are copied, never written to.
        params: a module, or its parameters: tensors that ``fn`` uses but does not take as arguments.
        eps: the step, relative to elements larger than 1.
        rtol, atol: the tolerances.
        mode: ``"full"`` checks every element; ``"directional"`` checks each argument along ``directions`` random
            directions, for functions with many elements.
        order: 2 also checks the gradients of the gradients, with respect to the inputs and the cotangent.
        seed: seed of the cotangent and of the directions.
        cotangent: an array, or one for each output, instead of the random one.
        oracle: ``"complex"`` uses complex-step slopes, exact to rounding, for analytic functions.
        upcast: check a float64 copy of float32 or float16 inputs, which are rejected otherwise.

    Returns:
        True.

    Raises:
        GradcheckError: if a gradient is wrong, if the function is not deterministic, changes its inputs or computes
            in less than float64, or if no element could be checked.
        TypeError: if an input is not float64, or if there is nothing to check.
        ValueError: for invalid settings.

    Source: the gradient of <cotangent, fn> by central differences and C. J. F. Ridders' extrapolation (1982).

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
    if not report.passed:
        raise report.error()
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
                f"{argument.name} has no influence on the outputs: its gradient 0 says nothing"
            )
            warnings.warn(message, GradcheckWarning, stacklevel=2)
    return True


def gradient_report(
    fn, inputs, *, params=(), cotangent=None, upcast=False, find_fault=False, **settings
):
    """Run the check of ``gradcheck``, with the same arguments, and return a ``Report`` whether it passes or not.

    With ``find_fault``, if the check fails each operation of the function is checked on its own.
    """
    started = time.perf_counter()
    settings = Settings(**settings)
    arguments, slots = _arguments(inputs, params, upcast)
    call = call_text(fn, inputs, params, settings, upcast)
    with parameters_swapped(arguments):
        first = FirstOrder(fn, inputs, arguments, slots)
        base = _validated_values(first, fn)
        cotangents = _cotangents(base, cotangent, settings.seed, purpose="cotangent")
        reports = measure_gradients(first, cotangents, settings, base)
        if all(not r.failures for r in reports) and not any(r.has_influence for r in reports):
            if any(r.checked for r in reports):
                raise GradcheckError("none of the inputs has any influence on the outputs")
        if settings.order == 2 and not any(report.failures for report in reports):
            second = SecondOrder(first, cotangents)
            base = second.values()
            seconds = _cotangents(base, None, settings.seed, purpose="second cotangent")
            reports += measure_gradients(second, seconds, settings, base)
        checked, kinks = sum(r.checked for r in reports), sum(len(r.kinks) for r in reports)
        if checked and checked == kinks:
            kink_found = next(report for report in reports if report.kinks).kinks[0]
            raise GradcheckError(
                f"nothing could be checked, the function has a kink everywhere: {kink_found}"
            )
        report = Report(
            function=function_name(fn),
            arguments=reports,
            seed=settings.seed,
            operations=operations_of(first),
            call=call,
        )
        if not report.passed:
            _assert_deterministic(first, base=None)
            if find_fault:
                report.searched = True
                report.culprit = _culprit(first)
    report.evaluations = first.evaluations
    report.seconds = time.perf_counter() - started
    return report


def _culprit(first):
    try:
        return find_culprit(first, gradient_report)
    except (GradcheckError, TypeError, ValueError, RuntimeError):
        return None  # an operation cannot be checked on its own: the report names the function


def _arguments(inputs, params, upcast):
    """The ``Argument``s to check, and the slots: for each leaf of the inputs its Argument, or the leaf itself."""
    leaves = flatten(inputs, "inputs")
    only_required = any(isinstance(leaf, Tensor) and leaf.requires_grad for _, leaf in leaves)
    arguments, slots, in_modules = [], [], []
    for name, leaf in leaves:
        slots.append(leaf)
        if hasattr(leaf, "named_parameters"):
            in_modules += [(f"{name}.{inner}", p) for inner, p in leaf.named_parameters()]
            continue
        if isinstance(leaf, Tensor):
            wanted = leaf.requires_grad or not only_required
        else:
            wanted = is_array(leaf) and not only_required
        if wanted and leaf.dtype.kind in "fc":
            slots[-1] = Argument(name, leaf, dtype=_checked_dtype(name, leaf, upcast))
            arguments.append(slots[-1])
    seen = set()
    for name, parameter in [*in_modules, *named_parameters(params)]:
        if id(parameter) not in seen and parameter.dtype.kind in "fc":
            seen.add(id(parameter))
            dtype = _checked_dtype(name, parameter, upcast)
            arguments.append(Argument(name, parameter, parameter, dtype))
    if not arguments:
        kinds = ", ".join(sorted({type(leaf).__name__ for _, leaf in leaves})) or "nothing"
        raise TypeError(
            f"there is nothing to check: the inputs hold {kinds}, expected a floating-point tensor or array; "
            "to check a module's parameters, pass params=module"
        )
    return arguments, slots


def _checked_dtype(name, leaf, upcast):
    if leaf.dtype.kind == "c":
        raise TypeError(f"{name} is {leaf.dtype}: gradients of complex numbers are not checked")
    if native_dtype(leaf.dtype) != np.float64 and not upcast:
        digits = np.finfo(leaf.dtype).precision
        raise TypeError(
            f"{name} is {leaf.dtype}, whose {digits} digits are too few for a difference quotient: a step of 1e-6 "
            "vanishes in the rounding of 1, and even the best step leaves an error near 1e-5. Pass float64, or "
            "upcast=True to check a float64 copy."
        )
    return np.float64


def _validated_values(problem, fn):
    """The outputs at the point, once they are known to be float64 and reproducible."""
    base = problem.values()
    assert_unchanged(problem)
    for position, value in enumerate(base):
        if value.dtype != np.float64:
            raise GradcheckError(
                f"output {position} of {function_name(fn)} is {value.dtype} although its inputs are float64: something "
                "inside computes in less than float64, and differences of it are rounding noise",
                op=function_name(fn),
            )
    _assert_deterministic(problem, base)
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
    scale = np.max(np.abs(one[np.isfinite(one)]), initial=0.0)
    return np.allclose(one, other, rtol=0.0, atol=1e-12 * scale, equal_nan=True)


def _distance(one, other):
    if one.shape != other.shape:
        return f"has the shape {one.shape} and then {other.shape}"
    return f"differs by {np.nanmax(np.abs(one - other)):.3g}"


def _cotangents(base, cotangent, seed, purpose):
    if cotangent is None:
        random = generator(seed, purpose)
        return [random.standard_normal(value.shape) for value in base]
    given = [leaf for _, leaf in flatten(cotangent, "cotangent")]
    hosts = [np.asarray(c.numpy() if isinstance(c, Tensor) else c, np.float64) for c in given]
    if [c.shape for c in hosts] != [value.shape for value in base]:
        raise ValueError(
            f"cotangent has the shapes {[c.shape for c in hosts]}, "
            f"expected those of the outputs, {[value.shape for value in base]}"
        )
    return hosts
