"""The judge: decides by the gradient checker, and never by the source, whether a learner's function is right.

It reports, in this order: whether the function runs, whether shapes and dtypes are right, whether the numbers are
right, with the worst element and its expected value, and the mistake (``diagnosis.py``).
"""

import inspect
import warnings

import numpy as np

from ..autograd import PRIMITIVES, Tensor, reference
from ..autograd.backward import unbroadcast
from ..autograd.replacement import replaced_vjps
from ..checker import GradcheckError, gradient_report
from ..checker.culprit import call_of_primitive
from ..data import InputError
from .answer import Answer, AnswerError
from .diagnosis import Sample, close, diagnose, diagnose_function
from .exercise import PATH, Vjp, exercise
from .verdict import Result, Verdict, describe_error

# Answers may compute in float32 inside.
TOLERANCES = {"rtol": 1e-4, "atol": 1e-4}
NOT_WRITTEN = "not written yet"


def check(name, *functions):
    """Judge functions that were written for an exercise, in this process and without a time limit.

    Args:
        name: the exercise, or one of its functions.
        functions: the functions, in the order of the exercise.

    Returns:
        A ``Result`` with ``passed`` and ``diagnosis``.

    Raises:
        InputError: for an unknown name and the wrong number of functions.

    >>> import numpy as np
    >>> result = check("softmax", lambda g, y, x, axis=-1: y * g)
    >>> result.passed, result.diagnosis.splitlines()[0]
    (False, 'dx lacks the subtracted mean:')
    """
    parts = [part for one in PATH for part in exercise(one).parts if part.name == name]
    parts = parts or list(exercise(name).parts)
    if len(parts) != len(functions):
        wanted = ", ".join(part.name for part in parts)
        raise InputError(f"{name} takes {len(parts)} functions ({wanted}), given {len(functions)}")
    return Result(name, [judge(part, function) for part, function in zip(parts, functions)])


def judge(part, function):
    """The ``Verdict`` on a function for one part of an exercise."""
    verdict = Verdict(part.name)
    if not callable(function):
        verdict.findings.append(f"{part.name} is a {type(function).__name__}: expected a function")
        return verdict
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if isinstance(part, Vjp):
                _judge_vjp(part, function, verdict)
            else:
                _judge_function(part, function, verdict)
    except NotImplementedError:
        verdict.written = False
        verdict.findings.append(f"{part.name}: {NOT_WRITTEN}")
    except AnswerError as error:
        verdict.findings.append(f"{part.name} cannot be used")
        verdict.diagnosis = str(error)
    except (Exception, SystemExit) as error:
        verdict.findings.append(f"{part.name} does not run")
        verdict.diagnosis = describe_error(error, function)
    return verdict


# ----------------------------------------------------------------------------------------------- backward passes


def _judge_vjp(part, function, verdict):
    answer = Answer(function, part.primitive)
    samples = [_sample(part, case.draw(i), case.parameters, i) for i, case in enumerate(part.cases)]
    stopped = [(s, error) for s in samples if (error := _answer_or_error(part, answer, s))]
    samples = [sample for sample in samples if sample.given]
    if stopped:
        _report_stopped(part, answer, samples, stopped, verdict)
        return
    shapes = _wrong_shape(part, samples)
    if shapes:
        verdict.findings.append(f"{part.name} runs; a shape is wrong")
        verdict.diagnosis = shapes
        return
    verdict.usable = True
    verdict.notes += _notes(part, answer, samples[0])
    wrong, sentence = _wrong(part, answer, samples)
    if wrong:
        verdict.findings += [
            f"{part.name} runs, and shapes are right",
            f"wrong in {len(wrong)} of {len(samples)} cases, such as {wrong[0].label}:",
            f"  {sentence}",
        ]
        verdict.diagnosis = diagnose(part, answer, samples)
        return
    for extreme in part.extremes:
        sample = _sample(part, extreme.inputs, extreme.parameters, 99, extreme.what)
        _answer(part, answer, sample)
        found = _beyond_row_tolerance(sample)
        if found:
            verdict.findings += [
                f"{part.name} runs, and is right on ordinary numbers",
                f"wrong at an extreme: {extreme.what}",
                f"  {found}",
            ]
            verdict.diagnosis = (
                f"right in all {len(samples)} ordinary cases, and wrong for {extreme.what}"
            )
            if " is nan" in found:
                verdict.diagnosis += (
                    ": NaN comes of inf / inf, inf - inf or 0 * inf in an intermediate"
                )
            return
    verdict.passed = True
    elements = sum(d.size for s in samples for d in s.right if d is not None)
    verdict.findings.append(
        f"{part.name} is right: {elements} elements in {len(samples)} cases"
        + (f", and at {len(part.extremes)} extremes" if part.extremes else "")
    )
    if _right_to_second_order(part, answer, samples[0]):
        verdict.notes.append("its own gradient is right as well: second order came free")


def _sample(part, inputs, parameters, seed, label=None):
    """A call of the primitive with a random cotangent, and the right gradients."""
    primitive = PRIMITIVES[part.primitive]
    with reference():
        out = np.asarray(primitive.forward(*inputs, **parameters))
    g = np.asarray(np.random.default_rng([seed, 7]).standard_normal(out.shape))
    right = part.solution()(g, out, *inputs, **parameters)
    right = tuple(
        None if d is None else unbroadcast(np.asarray(d), inputs[p].shape, part.primitive)
        for p, d in enumerate(right)
    )
    label = label or _label(part.primitive, inputs, parameters)
    return Sample(label, primitive, g, out, list(inputs), parameters, right)


def _label(name, inputs, parameters):
    shapes = [str(x.shape) for x in inputs if hasattr(x, "shape")]
    text = f"{name} of shape{'s' if len(shapes) > 1 else ''} {' and '.join(shapes)}"
    given = [f"{key}={value!r}" for key, value in parameters.items()]
    return ", ".join([text, *given])


def _answer_or_error(part, answer, sample):
    """The exception that the learner's function raises for the sample, or None."""
    try:
        _answer(part, answer, sample)
    except (AnswerError, NotImplementedError):
        raise
    except (Exception, SystemExit) as error:
        return error
    return None


def _report_stopped(part, answer, samples, stopped, verdict):
    sample, error = stopped[0]
    verdict.findings.append(
        f"{part.name} does not run for {sample.label}"
        + (f" and {len(stopped) - 1} more of {len(part.cases)} cases" if len(stopped) > 1 else "")
    )
    verdict.diagnosis = describe_error(error, answer.function)
    if samples and not _wrong_shape(part, samples):
        # Shapes that happen to fit, such as square ones, show what was meant.
        found = diagnose(part, answer, samples)
        if found:
            verdict.diagnosis += f"\nWhere it runs, {found}"


def _answer(part, answer, sample):
    """Store the learner's gradients in the sample, summed over broadcast axes as by the engine."""
    given = answer.gradients(sample.g, sample.out, sample.inputs, sample.parameters)
    given = [d.numpy() if isinstance(d, Tensor) else d for d in given]
    if not part.undoes_broadcasting:
        for position, d in enumerate(given):
            if d is not None and d.shape != sample.inputs[position].shape:
                try:
                    given[position] = unbroadcast(d, sample.inputs[position].shape, part.primitive)
                except RuntimeError:
                    pass  # a wrong shape, which is reported below
    sample.given = tuple(given)


def _wrong_shape(part, samples):
    """A sentence about the first gradient of a wrong shape; empty if there is none."""
    for sample in samples:
        for position, d in enumerate(sample.given):
            if d is None or d.shape == sample.right[position].shape:
                continue
            name = sample.primitive.input_names[position]
            text = (
                f"d{name} has shape {d.shape}, expected that of {name}, {sample.right[position].shape} "
                f"({sample.label})"
            )
            swapped = [
                other
                for other, r in enumerate(sample.right)
                if r is not None
                and other != position
                and close(d, r)
                and close(sample.given[other], sample.right[position])
            ]
            if swapped:
                text += f"\n  it is d{sample.primitive.input_names[swapped[0]]}: are the two in the wrong order?"
            elif d.shape == sample.right[position].T.shape and close(d, sample.right[position].T):
                text += "\n  it is the transpose of the right one"
            elif d.shape == sample.out.shape and part.undoes_broadcasting:
                text += (
                    f"\n  {name} was copied to the shape of the output: every copy sends its cotangent back, and they "
                    "add up"
                )
            elif d.shape == sample.out.shape:
                text += "\n  that is the shape of the output"
            elif d.size == sample.right[position].size:
                text += "\n  it has as many elements: an axis is missing, or one too many"
            return text
    return ""


def _wrong(part, answer, samples):
    """The samples with a wrong gradient, by the checker, and a sentence about the worst element of the first.

    The checker needs many evaluations to confirm that an element is wrong. Therefore it checks all samples in which the
    gradients are close to those of the rule, but only the smallest of the others.
    """
    far = [s for s in samples if not all(map(_agree, s.given, s.right))]
    far.sort(key=lambda sample: sum(x.size for x in sample.inputs if hasattr(x, "size")))
    for sample in [*far[:1], *(s for s in samples if s not in far)]:
        sentence = _by_checker(part, answer, sample)
        if sentence:
            return [sample, *(s for s in far if s is not sample)], sentence
    return [], ""


def _agree(given, right):
    return given is None or close(given, right)


def _by_checker(part, answer, sample):
    """A sentence about the worst element, if the checker calls a gradient of the sample wrong."""
    inputs = [
        Tensor(x) if hasattr(x, "dtype") and x.dtype.kind == "f" else x for x in sample.inputs
    ]
    call, checked = call_of_primitive(sample.primitive, inputs, sample.parameters)
    positions = [p for p, x in enumerate(inputs) if any(x is one for one in checked)]
    try:
        with reference(), replaced_vjps({part.primitive: answer.products()}):
            report = gradient_report(call, checked, cotangent=sample.g, **TOLERANCES)
    except GradcheckError as error:
        return str(error)
    wrong = [(a, p) for a, p in zip(report.arguments, positions) if a.failures]
    if not wrong:
        return ""
    argument, position = max(wrong, key=lambda pair: pair[0].relative_error)
    name = sample.primitive.input_names[position]
    index = ", ".join(map(str, argument.worst_index))
    place = f"d{name}[{index}]" if index else f"d{name}"
    return f"{place} is {argument.analytic:.6g} and should be {argument.numeric:.6g}"


def _beyond_row_tolerance(sample):
    """A sentence about an element beyond the tolerance of its row; empty if there is none."""
    for position, (given, right) in enumerate(zip(sample.given, sample.right)):
        if given is None:
            continue
        name = sample.primitive.input_names[position]
        if given.shape != right.shape:
            return f"d{name} has shape {given.shape}, expected {right.shape}"
        row = np.max(np.abs(right), axis=-1, keepdims=True) if right.ndim else np.abs(right)
        allowed = 1e-4 * row + 1e-6 * np.max(np.abs(sample.g), initial=0.0)
        outside = ~(np.abs(given - right) <= allowed)  # NaN is outside
        if outside.any():
            index = tuple(int(i) for i in np.argwhere(outside)[0])
            place = f"d{name}[{', '.join(map(str, index))}]"
            return f"{place} is {given[index]:.6g} and should be {right[index]:.6g}"
    return ""


def _notes(part, answer, sample):
    """Remarks that are not mistakes: writes to the arguments, another dtype."""
    notes = []
    arguments = [
        sample.g.copy(),
        sample.out.copy(),
        *(x.copy() if hasattr(x, "copy") else x for x in sample.inputs),
    ]
    before = [x.copy() if hasattr(x, "copy") else x for x in arguments]
    answer.function(*arguments, **answer.accepted(sample.parameters))
    names = ["g", *list(inspect.signature(answer.function).parameters)[1:]]
    for name, was, now in zip(names, before, arguments):
        if isinstance(now, np.ndarray) and not np.array_equal(was, now, equal_nan=True):
            notes.append(
                f"note: it writes into {name}, which others go on to read: here it gets a copy, in an engine of your "
                "own it would be a mistake that is hard to find"
            )
            break
    kinds = {d.dtype.name for d in sample.given if d is not None}
    other = sorted(kinds - {"float64"})
    if other:
        notes.append(f"note: it returns {other[0]} for inputs of float64")
    return notes


def _right_to_second_order(part, answer, sample):
    """Whether the function also runs on tensors, so that it is recorded, with a right second-order gradient."""
    inputs = [
        Tensor(x) if hasattr(x, "dtype") and x.dtype.kind == "f" else x for x in sample.inputs
    ]
    call, checked = call_of_primitive(sample.primitive, inputs, sample.parameters)
    try:
        with reference(), replaced_vjps({part.primitive: answer.products()}):
            return gradient_report(call, checked, cotangent=sample.g, order=2, **TOLERANCES).passed
    except Exception:  # whatever it does with tensors: second order is not asked for
        return False


# ------------------------------------------------------------------------------------------------- other functions


def _judge_function(part, function, verdict):
    ours, theirs, stopped = [], [], []
    for (label, arguments), (_, again) in zip(_drawn(part), _drawn(part)):
        try:
            theirs.append((label, _outputs(part, function(*again))))
        except (AnswerError, NotImplementedError):
            raise
        except (Exception, SystemExit) as error:
            stopped.append((label, error))
        else:
            ours.append((label, _outputs(part, part.answer(*arguments))))
    wrong = [
        (label, found)
        for (label, right), (_, given) in zip(ours, theirs)
        if (found := _difference(given, right))
    ]
    if stopped:
        verdict.findings.append(f"{part.name} does not run for {stopped[0][0]}")
        verdict.diagnosis = describe_error(stopped[0][1], function)
        if wrong:
            found = diagnose_function(part, ours, theirs)
            verdict.diagnosis += f"\nWhere it runs, {found}"
        return
    if not wrong:
        verdict.passed = True
        verdict.findings.append(f"{part.name} is right in {len(ours)} cases")
        return
    verdict.findings += [
        f"{part.name} runs",
        f"wrong in {len(wrong)} of {len(ours)} cases, first for {wrong[0][0]}:",
        f"  {wrong[0][1]}",
    ]
    verdict.diagnosis = diagnose_function(part, ours, theirs)


def _drawn(part):
    return list(part.draw(np.random.default_rng(0)))


def _outputs(part, result):
    if result is None:
        raise AnswerError(f"{part.name} returns None: is the return missing?")
    try:
        outputs = part.outputs(result)
        return {name: np.asarray(value, float) for name, value in outputs.items()}
    except (TypeError, ValueError, AttributeError):
        raise AnswerError(
            f"{part.name} returns a {type(result).__name__} that cannot be read: {part.stub.__doc__}"
        ) from None


def _difference(given, right):
    for name, value in right.items():
        if name not in given:
            return f"{name} is missing"
        if given[name].shape != value.shape:
            return f"{name} has shape {given[name].shape}, expected {value.shape}"
        if not close(given[name], value):
            error = np.abs(given[name] - value)
            index = np.unravel_index(
                np.argmax(np.where(np.isnan(error), np.inf, error)), error.shape
            )
            place = f"{name}[{', '.join(map(str, index))}]" if index else name
            return f"{place} is {given[name][index]:.6g} and should be {value[index]:.6g}"
    for name in given:
        if name not in right:
            return f"{name} is there, which the output does not depend on"
    return ""
