"""The results of the judge."""

import traceback
from dataclasses import dataclass, field


@dataclass
class Verdict:
    """The result for one function; ``findings`` are lines of text, the most important first."""

    name: str
    passed: bool = False
    written: bool = True
    # It runs and returns the right shapes, so that a model can be trained with it.
    usable: bool = False
    findings: list = field(default_factory=list)
    diagnosis: str = ""
    notes: list = field(default_factory=list)

    def __str__(self):
        return "\n".join([*self.findings, *self.diagnosis.splitlines(), *self.notes])


@dataclass
class Result:
    """The verdicts on the functions of an exercise.

    Attributes:
        passed: whether all are right.
        diagnosis: the recognized mistakes, or relations to the correct result; empty if all are right.
    """

    exercise: str
    verdicts: list

    @property
    def passed(self):
        return all(verdict.passed for verdict in self.verdicts)

    @property
    def diagnosis(self):
        return "\n".join(verdict.diagnosis for verdict in self.verdicts if verdict.diagnosis)

    def __str__(self):
        return "\n".join(map(str, self.verdicts))

    __repr__ = __str__


def describe_error(error, function=None, file=None):
    """Describe an exception of a learner's code: the line in their file, and the message.

    Args:
        function: a function of the file, or pass ``file``.
    """
    file = file or getattr(getattr(function, "__code__", None), "co_filename", None)
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError):
        where = f"line {error.lineno}: {(error.text or '').strip()}"
        return f"{where}\n  SyntaxError: {error.msg}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    if not frames:
        return what
    return f"line {frames[-1].lineno}, in {frames[-1].name}: {frames[-1].line}\n  {what}"
