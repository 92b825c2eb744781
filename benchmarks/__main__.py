"""``python -m benchmarks NAME [--quick] [--one-core] [--json FILE]``; lists the benchmarks if there is no name."""

import argparse
import importlib
import json
import os
import sys
from pathlib import Path

from tinyattn.data.atomic import write_atomic

from . import NAMES
from .machine import describe_machine


def run(name, quick=False, output=None, one_core=False):
    """Run one benchmark, print its table and write its JSON; returns the exit status.

    Args:
        name: one of ``NAMES``.
        quick: fewer and smaller measurements, as a smoke test.
        output: path of the JSON file; by default ``NAME.json`` in ``benchmarks/results``.
        one_core: restrict all contestants to one core and measure CPU time, for a machine under load.
    """
    if name not in NAMES:
        print(f"unknown benchmark {name!r}: expected one of {', '.join(NAMES)}", file=sys.stderr)
        return 2
    if one_core:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    result = importlib.import_module(f"{__package__}.{name}").run(quick=quick)
    result = {"benchmark": name, "quick": quick, "machine": describe_machine(), **result}
    path = Path(output) if output else Path(__file__).parent / "results" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(result, indent=2) + "\n")
    print(f"written to {path}")
    return 0


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="?", help="name of the benchmark")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller measurements")
    parser.add_argument("--one-core", action="store_true", help="CPU time on one core")
    parser.add_argument("--json", metavar="FILE", help="file for the results")
    given = parser.parse_args(arguments)
    if given.name is None:
        for name, meaning in NAMES.items():
            print(f"{name:16} {meaning}")
        return 0
    return run(given.name, given.quick, given.json, given.one_core)


if __name__ == "__main__":
    sys.exit(main())
