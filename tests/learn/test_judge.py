"""The judge: right answers in any form pass, wrong ones are called wrong, and what is said of them is true."""

import collections
import re
import types

import numpy as np
import pytest

import tinyattn as ta
from tinyattn.autograd.primitive import registered_kernels
from tinyattn.learn.exercise import PATH, Function, exercise
from tinyattn.learn.judge import check, judge
from tinyattn.mutation.mutants import mutants

from . import student_answers
from .right_answers import RIGHT
from .wrong_answers import FREE, WRONG

PARTS = {part.name: part for name in PATH for part in exercise(name).parts}
EXERCISES = {part.name: name for name in PATH for part in exercise(name).parts}
NOTHING_SAID = re.compile(r"wrong in every (element|case)")


def identities(answers):
    return [f"{name}-{number}" for number, (name, *_) in enumerate(answers)]


@pytest.mark.parametrize("name", PARTS)
def test_our_own_solution_is_right(name):
    verdict = judge(PARTS[name], PARTS[name].solution())
    assert verdict.passed, verdict


@pytest.mark.parametrize("name", PARTS)
def test_what_a_learner_starts_from_is_not_written_yet(name):
    verdict = judge(PARTS[name], PARTS[name].stub)
    assert not verdict.passed and not verdict.written


@pytest.mark.parametrize(("name", "answer"), RIGHT, ids=identities(RIGHT))
def test_a_right_answer_in_another_form_is_right(name, answer):
    verdict = judge(PARTS[name], answer)
    assert verdict.passed, verdict


@pytest.mark.parametrize(("name", "answer", "words"), WRONG, ids=identities(WRONG))
def test_a_wrong_answer_has_a_diagnosis_with_these_words(name, answer, words):
    verdict = judge(PARTS[name], answer)
    assert not verdict.passed
    for word in words:
        assert word in str(verdict)
    _DIAGNOSES[name, answer] = verdict.diagnosis


_DIAGNOSES = {}


def test_nine_of_ten_wrong_answers_get_a_name_or_a_true_part():
    diagnoses = [
        _DIAGNOSES.get((name, answer)) or judge(PARTS[name], answer).diagnosis
        for name, answer, _ in WRONG
    ]
    empty = [text for text in diagnoses if not text or _says_nothing(text)]
    assert len(empty) <= 0.1 * len(diagnoses), empty


@pytest.mark.slow
def test_nine_of_ten_small_changes_to_answers_in_other_forms_get_a_name_or_a_true_part():
    """Mistakes that no person chose: each small change to each right answer that is not written as ours is."""
    diagnoses = []
    for name, answer in RIGHT:
        for _, code in mutants(answer):
            changed = types.FunctionType(
                code, answer.__globals__, answer.__name__, answer.__defaults__
            )
            verdict = judge(PARTS[name], changed)
            if not verdict.passed:  # some change nothing, such as a sign before a zero
                diagnoses.append(verdict.diagnosis)
    assert len(diagnoses) > 250 and all(diagnoses)
    empty = [text for text in diagnoses if _says_nothing(text)]
    assert len(empty) <= 0.1 * len(diagnoses), len(empty) / len(diagnoses)


def test_wrong_answers_written_without_the_tables_are_wrong_and_nine_of_ten_get_a_name_or_a_true_part():
    verdicts = {
        answer.__name__: judge(PARTS[name], answer) for name, answer in student_answers.WRONG
    }
    assert not [name for name, verdict in verdicts.items() if verdict.passed]
    empty = [name for name, verdict in verdicts.items() if _says_nothing(verdict.diagnosis)]
    assert len(empty) <= 0.1 * len(verdicts), empty
    written = collections.Counter(EXERCISES[name] for name, _ in student_answers.WRONG)
    for name in PATH:
        assert written[name] >= (3 if isinstance(exercise(name).parts[0], Function) else 6), name


def test_a_difference_in_some_samples_only_is_no_relation_to_the_cotangent():
    verdict = judge(PARTS["embedding_vjp"], student_answers.embedding_first_occurrence)
    assert "is right for embedding" in verdict.diagnosis and "multiple of" not in verdict.diagnosis


def _says_nothing(text):
    statements = [line for line in text.splitlines() if line.strip()]
    return all(NOTHING_SAID.search(line) for line in statements)


def test_there_are_enough_answers_of_each_kind():
    wrong = collections.Counter(EXERCISES[name] for name, *_ in WRONG)
    free = collections.Counter(EXERCISES[name] for name, answer, _ in WRONG if answer in FREE)
    for name in PATH:
        least = 3 if isinstance(exercise(name).parts[0], Function) else 6
        assert wrong[name] >= least and free[name] >= 1, name
    assert len(RIGHT) >= 20 and {EXERCISES[name] for name, _ in RIGHT} == set(PATH)


def test_two_mistakes_at_once_are_both_named():
    def vjp(g, y, x, w, b, axes=(-1,), eps=1e-5):
        c = x - x.mean(axes, keepdims=True)
        sigma = np.sqrt((c * c).mean(axes, keepdims=True) + eps)
        p, z = g * w, c / sigma
        return p - z * (p * z).mean(axes, keepdims=True), g, g

    said = check("layer_norm", vjp).diagnosis
    assert "lacks the mean term" in said and "is not divided by the deviation" in said
    assert "dweight lacks z in dw" in said


def test_a_known_mistake_is_recognized_under_a_sign():
    said = check("softmax", lambda g, y, x, axis=-1: -y * g).diagnosis
    assert "lacks the subtracted mean" in said and "wrong sign" in said


def test_the_diagnosis_of_a_function_that_is_right_up_to_a_sign_says_so():
    said = check("pull_back", lambda g, jacobians: -PARTS["pull_back"].answer(g, jacobians))
    assert "-1 times the right result" in said.diagnosis


def test_the_worst_element_is_named_with_what_it_should_be():
    result = check("softmax", lambda g, y, x, axis=-1: y * g)
    assert re.search(r"dx\[[\d, ]+\] is -?[\d.]+ and should be -?[\d.]+", str(result))


def test_an_error_is_reported_with_the_line_of_the_learners_file_and_nothing_of_ours():
    def vjp(g, y, x, axis=-1):
        return y * g.summ()

    said = str(check("softmax", vjp))
    assert "return y * g.summ()" in said and "AttributeError" in said
    assert "judge.py" not in said and "Traceback" not in said


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda g, y, x, axis=-1: None, "returns None"),
        (lambda g, y: g, "must take (g, out, x, ...)"),
        (lambda g, y, x, axis=-1: (g, g, g), "returns 3 gradients"),
        (lambda g, y, x, axis=-1: "dx", "returns is a str"),
        (lambda g, y, x: y * (g - (g * y).sum(-1, keepdims=True)), "takes no axis"),
    ],
)
def test_an_answer_of_the_wrong_form_is_a_sentence(answer, words):
    result = check("softmax", answer)
    assert not result.passed and words in result.diagnosis


def test_an_infinite_row_is_tried_and_reported():
    def vjp(g, y, x, axis=-1):
        e = np.exp(x - x.max(axis, keepdims=True))
        y = e / e.sum(axis, keepdims=True)
        return y * (g - (g * y).sum(axis, keepdims=True))

    said = check("softmax", vjp).diagnosis
    assert "right in all 7 ordinary cases" in said and "a row of -inf only" in said


def test_writing_into_the_cotangent_is_right_and_noted():
    (verdict,) = check("sigmoid", lambda g, y, x: np.multiply(g, y * (1 - y), out=g)).verdicts
    assert verdict.passed and any("writes into g" in note for note in verdict.notes)


def test_judging_leaves_the_registry_as_it_was():
    kernels = registered_kernels()
    vjps = dict(ta.softmax.vjps)
    check("softmax", lambda g, y, x, axis=-1: y * g)
    assert registered_kernels() == kernels and ta.softmax.vjps == vjps


def test_a_notebook_asks_by_exercise_or_by_function():
    sums = lambda g, out, x, axis=None, keepdims=False: g  # noqa: E731
    means = PARTS["mean_vjp"].solution()
    assert ta.learn.check("mean_vjp", means).passed
    assert not ta.learn.check("sum_and_mean", sums, means).passed
    with pytest.raises(ValueError, match="takes 2 functions"):
        ta.learn.check("sum_and_mean", means)
    with pytest.raises(ValueError, match="softmax"):
        ta.learn.check("sofmax", means)
