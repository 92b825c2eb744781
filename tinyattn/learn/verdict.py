"""What the judge found, as text and as data."""

import traceback
from dataclasses import dataclass, field


@dataclass
class Verdict:
    """What the judge found about one function: ``findings`` are lines of text, in the order in which they matter."""

    name: str
    passed: bool = False
    written: bool = True
    usable: bool = False  # it runs and has the right shapes: one can train with it, right or not
    findings: list = field(default_factory=list)
    diagnosis: str = ""
    notes: list = field(default_factory=list)

    def __str__(self):
        return "\n".join([*self.findings, *self.diagnosis.splitlines(), *self.notes])


@dataclass
class Result:
    """The verdicts about the functions of an exercise.

    Attributes:
        passed: whether all are right.
        diagnosis: which mistakes were recognized, or how far the answer agrees; empty if it is right.
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
    """An exception of a learner's code in a few lines: where in their file, and what.

    Args:
        function: whose file it is, or give ``file``.
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
