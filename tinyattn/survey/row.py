"""One line of the survey's table."""

import time
from dataclasses import dataclass, field

from ..checker import GradcheckError
from ..checker.report import CANNOT_TELL, RIGHT, WRONG


@dataclass
class Row:
    """The checks of one primitive, by its rule or its kernel, or of one block."""

    name: str
    version: str  # "rule", "kernel" or "block"
    cases: int = 0
    absolute_error: float = 0.0
    relative_error: float = 0.0
    seconds: float = 0.0
    evaluations: int = 0
    faults: list = field(default_factory=list)  # messages
    doubts: list = field(default_factory=list)  # messages of inconclusive checks

    @property
    def passed(self):
        return self.verdict == RIGHT

    @property
    def verdict(self):
        if self.faults:
            return WRONG
        return CANNOT_TELL if self.doubts else RIGHT

    def add(self, what, check):
        """Run ``check()`` and add its ``Report``; ``what`` names the check in the message if it raises."""
        started = time.perf_counter()
        self.cases += 1
        try:
            report = check()
        except GradcheckError as error:
            self.faults.append(f"{what}: {error}")
        except Exception as error:  # an error is a fault of this row and does not end the survey
            self.faults.append(f"{what} raised {type(error).__name__}: {error}")
        else:
            self.absolute_error = max(self.absolute_error, report.absolute_error)
            self.relative_error = max(self.relative_error, report.relative_error)
            self.evaluations += report.evaluations
            if report.verdict == WRONG:
                self.faults.append(str(report.error(op=self.name)))
            elif report.verdict == CANNOT_TELL:
                self.doubts.append(str(report.error(op=self.name)))
        self.seconds += time.perf_counter() - started
