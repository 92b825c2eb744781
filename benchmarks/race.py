"""Run contestants in their own processes, in turns, and print tables."""

import json
import statistics
import subprocess
import sys
from pathlib import Path

from tinyattn.train.parallel import available_cores

ROOT = Path(__file__).resolve().parent.parent


class Contestant:
    """A process that sets up the function ``module.CONTESTANTS[name]()(**options)``, and calls and times it on request.

    Attributes:
        missing: the reason why it cannot run, or None.
        base_megabytes: memory after the imports, before the setup.
    """

    def __init__(self, module, name, options):
        self.name = name
        command = [sys.executable, "-m", "benchmarks.contestant", module, name, json.dumps(options)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        ready = self._receive()
        self.missing = ready.get("missing")
        self.base_megabytes = ready.get("base_megabytes")
        self.seconds = []
        self.processor_seconds = []
        self.megabytes = None

    def take_turn(self, calls):
        """Call the function ``calls`` times."""
        self._process.stdin.write(f"{calls}\n")
        self._process.stdin.flush()
        answer = self._receive()
        self.seconds += answer["seconds"]
        self.processor_seconds += answer["processor_seconds"]
        self.megabytes = answer["megabytes"]

    def _receive(self):
        for line in self._process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise RuntimeError(f"{self.name} exited without a result: its error is above")

    def close(self):
        """Stop the process."""
        self._process.stdin.close()
        self._process.wait()

    def result(self):
        """Median, fastest and slowest call in milliseconds; peak memory in MB, in total and above the imports.

        With ``--one-core``, CPU time is measured, which does not depend on the load of the machine.
        """
        seconds = self.processor_seconds if available_cores() == 1 else self.seconds
        milliseconds = sorted(1e3 * second for second in seconds)
        return {
            "median_ms": statistics.median(milliseconds),
            "median_processor_ms": 1e3 * statistics.median(self.processor_seconds),
            "fastest_ms": milliseconds[0],
            "slowest_ms": milliseconds[-1],
            "calls": len(milliseconds),
            "peak_mb": self.megabytes,
            "peak_mb_over_imports": self.megabytes - self.base_megabytes,
        }


def race(module, names, options, rounds, calls):
    """Run contestants in turns, ``rounds`` rounds of ``calls`` calls each.

    Args:
        module: the module in ``benchmarks`` with the table ``CONTESTANTS``.
        names: names of contestants; the others are compared with the first.
        options: dict of keyword arguments that JSON can represent.

    Returns:
        ``{name: result}``, or ``{"missing": reason}`` for a contestant that cannot run.
    """
    results, present = {}, []
    for name in names:
        contestant = Contestant(module, name, options)
        if contestant.missing:
            print(f"  skipping {name}: {contestant.missing}")
            results[name] = {"missing": contestant.missing}
            contestant.close()
        else:
            present.append(contestant)
    try:
        for _ in range(rounds):
            for contestant in present:
                contestant.take_turn(calls)
    finally:
        for contestant in present:
            contestant.close()
    results.update({contestant.name: contestant.result() for contestant in present})
    first = results[names[0]]
    for name in names[1:]:
        if "missing" not in results[name]:
            results[name]["ratio"] = first["median_ms"] / results[name]["median_ms"]
            results[name]["ratio_of_fastest"] = first["fastest_ms"] / results[name]["fastest_ms"]
    return {name: results[name] for name in names}


def print_table(title, header, rows):
    """Print a table, with numbers to three digits."""
    cells = [[_cell(value) for value in row] for row in [header, *rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    print(f"\n{title}")
    for row in cells:
        first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        print("  " + "  ".join([first.strip().ljust(widths[0]), *others]))


def _cell(value):
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)
