"""Diagnosis of a wrong answer: comparison of the learner's gradients with those of known mistakes, on the same inputs.

The known mistakes of the operation (``survey/mistakes``) are tried first: one, one with another sign or factor, and
two at once. Then every mutant of the rule (``mutation``) is tried. If none gives the learner's gradient, relations
between the gradient and the correct one are reported (``relations.py``).
"""

import functools
import itertools
import re
from dataclasses import dataclass

import numpy as np

from ..autograd.backward import unbroadcast
from ..mutation.mutants import mutants
from ..mutation.rewrite import running
from ..survey.mutations import MUTATIONS, mutated
from .relations import close, constant_factor, describe


@dataclass(eq=False)
class Sample:
    """One call: a cotangent, the output, the inputs, the right gradients, and those of the learner."""

    label: str
    primitive: object
    g: np.ndarray
    out: np.ndarray
    inputs: list
    parameters: dict
    right: tuple
    given: tuple = ()


CHANGES = {
    "swap an operator": "has + and -, or * and /, confused in one place",
    "drop a term": "lacks a term of a sum",
    "drop a factor": "lacks a factor",
    "drop a sign": "lacks a minus sign",
    "change the sign of the result": "has the wrong sign",
    "drop a transpose": "lacks a transpose",
    "swap a function": "has a sum for a mean or a largest for a smallest, or the other way round",
    "change an axis": "sums along another axis",
    "alter a constant": "has another number in one place",
    "negate a condition": "takes the other branch of a condition",
    "skip an accumulation": "leaves out a step",
    "skip a statement": "leaves out a step",
}


_LACKS_A_TERM = re.compile(r"lacks (the|both) [\w ]*\b(term|mean|means)\b")


def diagnose(part, answer, samples):
    """Text with the mistake in each wrong gradient of the learner."""
    found = {}  # text -> names of the gradients
    for position in answer.positions:
        pairs = [(s.given[position], s.right[position]) for s in samples]
        pairs = [(given, right) for given, right in pairs if given is not None]
        if all(close(given, right) for given, right in pairs):
            continue
        text = _named(part.primitive, position, samples) or _changed(position, samples)
        text = text or describe(position, samples, answer)
        found.setdefault(text, []).append("d" + answer.primitive.input_names[position])
    return "\n".join(_sentence(names, text) for text, names in found.items())


def _sentence(names, text):
    if len(names) == 1:
        return f"{names[0]} {text}"
    return f"{', '.join(names[:-1])} and {names[-1]}: each {text}"


# -------------------------------------------------------------------------------------------------- known mistakes


def _named(primitive, position, samples):
    """The known mistake, or pair of mistakes, that gives the learner's gradient; empty if there is none."""
    known = MUTATIONS.get(primitive, ())
    factor = constant_factor(position, samples)
    if factor is None:
        scales = {}
        for mutation in known:
            scales[mutation] = _scale_to(primitive, (mutation,), position, samples)
            if scales[mutation] == 1:
                return _mistake(mutation)
        for mutation, scale in scales.items():
            if scale == -1:
                return f"{_mistake(mutation)}\n  and has the wrong sign"
            if scale is not None:
                return f"{_mistake(mutation)}\n  and is {scale:.4g} times that"
        for pair in itertools.combinations(known, 2):
            if _scale_to(primitive, pair, position, samples) == 1:
                first, second = (_mistake(mutation) for mutation in pair)
                return f"{first}\n  and {second}"
        return _miscounted_term(primitive, position, samples)
    for mutation in known:
        if _scale_to(primitive, (mutation,), position, samples) == 1:
            return _mistake(mutation)
    return ""


def _miscounted_term(primitive, position, samples):
    """A term that the learner's gradient has with a wrong factor; empty if there is none.

    A known mistake lacks a term T: its gradient is the right one minus T. The learner's gradient is the right one plus
    (factor - 1) T.
    """
    for mutation in MUTATIONS.get(primitive, ()):
        if not _LACKS_A_TERM.match(mutation.what):
            continue
        with mutated(primitive, mutation):
            wrong = [_rule(sample, position) for sample in samples]
        factors = [
            _term_factor(s.given[position], s.right[position], w) for s, w in zip(samples, wrong)
        ]
        known = [(s, factor) for s, factor in zip(samples, factors) if factor is not True]
        if 2 * len(known) < len(samples) or any(factor is None for _, factor in known):
            continue
        values = [factor for _, factor in known]
        term = mutation.what.removeprefix("lacks ")
        if max(values) - min(values) <= 1e-3 * max(map(abs, values)):
            return f"has {values[0]:.4g} times {term}"
        examples = ", ".join(f"{factor:.4g} for {s.label}" for s, factor in known[:3])
        return f"has {term} with a factor that differs from case to case: {examples}"
    return ""


def _term_factor(given, right, without):
    """The factor of the term in the learner's gradient; True if any factor fits the sample, None if no factor does."""
    if given is None or without is None:
        return True
    if given.shape != right.shape or without.shape != right.shape or not np.isfinite(given).all():
        return None
    term = right - without
    square = float(np.sum(term * term))
    if close(right, without) or not square:
        return True if close(given, right) else None
    factor = 1 + float(np.sum((given - right) * term)) / square
    return factor if close(given, right + (factor - 1) * term) else None


def _mistake(mutation):
    return f"{mutation.what}:\n  {mutation.why}" if mutation.why else mutation.what


def _scale_to(primitive, mutations, position, samples):
    """The constant c with learner's gradient = c times the mutated rule's in all samples; None if there is none."""
    factors, distinct, tried = [], False, 0
    try:
        with mutated(primitive, *mutations):
            for sample in samples:
                if sample.given[position] is None:
                    continue
                wrong = _rule(sample, position)
                if wrong is None:
                    continue
                tried += 1
                factor = _factor(sample.given[position], wrong)
                if factor is None:
                    return None
                factors.append(factor)
                distinct |= not close(wrong, sample.right[position])
    except (LookupError, SyntaxError):  # the second change no longer finds its text
        return None
    factors = [factor for factor in factors if factor is not True]
    if not distinct or not factors or 2 * tried < len(samples):
        return None
    if max(factors) - min(factors) > 1e-3 * max(map(abs, factors)):
        return None
    return 1 if abs(factors[0] - 1) < 1e-3 else -1 if abs(factors[0] + 1) < 1e-3 else factors[0]


def _factor(given, other):
    """c with given = c other; True if both are 0; None if there is none."""
    if given.shape != other.shape:
        return None
    if close(given, other):
        return 1.0 if np.any(other) else True
    if not (np.isfinite(given).all() and np.isfinite(other).all()):
        return None
    square = float(np.sum(other * other))
    if not square:
        return None
    factor = float(np.sum(given * other)) / square
    return factor if abs(factor) > 1e-3 and close(given, factor * other) else None


def _rule(sample, position):
    """The gradient of the rule in its current, possibly mutated, state; None if it raises."""
    try:
        gradient = sample.primitive.cotangent(
            position, sample.g, sample.out, sample.inputs, sample.parameters
        )
        return unbroadcast(np.asarray(gradient), sample.right[position].shape, "the rule")
    except Exception:  # a changed rule may fail in any way
        return None


def _changed(position, samples):
    """The mutation of the rule that gives the learner's gradient; empty if there is none."""
    rule = samples[0].primitive.vjps[position]
    for change, code in _changes_to(rule):
        with running(rule, code):
            if _fits(position, samples):
                return f"{CHANGES.get(change.kind, change.kind)}: one change away from right"
    return ""


@functools.cache
def _changes_to(rule):
    return tuple(mutants(rule))  # a new syntax tree for each: slow, and the same for every answer


def _fits(position, samples):
    distinct, tried = False, 0
    for sample in samples:
        given = sample.given[position]
        if given is None:
            continue
        wrong = _rule(sample, position)
        if wrong is None:
            continue
        if not close(given, wrong):
            return False
        tried += 1
        distinct |= not close(wrong, sample.right[position])
    return distinct and 2 * tried >= len(samples)


# ------------------------------------------------------------------------------------------------- other functions


def diagnose_function(part, ours, theirs):
    """Describe what is wrong with the results of a function, those of ``theirs`` that are in ``ours``."""
    right, given = dict(ours), dict(theirs)
    for what, (mistake, why) in part.mistakes.items():
        tried = different = 0
        for label, arguments in part.draw(np.random.default_rng(0)):
            if label not in given:
                continue
            try:
                wrong = part.outputs(mistake(*arguments))
            except ValueError:  # shapes that do not fit, as for the learner
                continue
            if not _same(wrong, given[label]):
                break
            tried += 1
            different += not _same(wrong, right[label])
        else:
            if different and tried:
                return f"{part.name} {what}:\n  {why}"
    return "\n".join(_agreement(ours, theirs))


def _same(one, other):
    return one.keys() == other.keys() and all(close(np.asarray(one[n]), other[n]) for n in one)


def _agreement(ours, theirs):
    """Sentences about the cases in which the results agree."""
    right, wrong, names, missing = [], [], set(), set()
    for (label, one), (_, other) in zip(ours, theirs):
        bad = {n for n in one if n not in other or not close(one[n], other[n])} | (
            set(other) - set(one)
        )
        (wrong if bad else right).append(label)
        names |= bad
        missing |= set(one) - set(other)
    factor = _common_factor(ours, theirs)
    if factor is not None:
        yield f"it is {factor:.4g} times the right result"
        return
    if not right:
        yield "it is wrong in every case"
    else:
        yield f"it is right for: {'; '.join(right)}"
        yield f"and wrong for: {'; '.join(wrong)}"
    if missing:
        yield f"missing are: {', '.join(sorted(missing))}"


def _common_factor(ours, theirs):
    """The constant factor between all results and the correct ones, or None."""
    right, given = (
        [value for _, outputs in results for _, value in sorted(outputs.items())]
        for results in (ours, theirs)
    )
    if [value.shape for value in right] != [value.shape for value in given]:
        return None
    right, given = (np.concatenate([np.ravel(v) for v in values]) for values in (right, given))
    return _factor(given, right)
