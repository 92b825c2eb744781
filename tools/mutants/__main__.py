"""Run the mutants: ``python -m tools.mutants [PATTERN] [--list] [--record]``.

Prints each survivor and the mutation score. The exit status is 1 if a mutant survives that is not listed as equivalent,
or if the list of equivalent mutants is out of date.
"""

import argparse
import json
import sys
import time
from collections import Counter

import tinyattn as ta
from tinyattn.autograd import PRIMITIVES

from . import checks
from .equivalent import EQUIVALENT
from .run import check_the_checks, find_mutants
from .targets import import_all


def main():
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument(
        "pattern", nargs="?", default="", help="only functions with this in their name"
    )
    parser.add_argument(
        "--list", action="store_true", help="print every mutant and the check that killed it"
    )
    parser.add_argument(
        "--record", action="store_true", help="record the values of all rules again"
    )
    options = parser.parse_args()
    if options.record:
        return record()
    started = time.perf_counter()
    mutants = find_mutants(options.pattern)
    if not mutants:
        parser.error(f"no rule or kernel has {options.pattern!r} in its name")
    check_the_checks(mutants)
    kinds, survivors, equivalent = Counter(), [], []
    for number, mutant in enumerate(mutants, start=1):
        if sys.stderr.isatty():
            print(
                f"\r{number}/{len(mutants)} {mutant.target.name[:60]:60s}", end="", file=sys.stderr
            )
        kinds[mutant.change.kind] += 1
        verdict = mutant.is_killed()
        if options.list:
            print(f"{mutant.key}\n    {verdict or 'SURVIVES'}")
        if verdict is None:
            (survivors if mutant.reason is None else equivalent).append(mutant)
    if sys.stderr.isatty():
        print("\r" + " " * 80 + "\r", end="", file=sys.stderr)
    for mutant in survivors:
        print(f"SURVIVES  {mutant.key}   ({mutant.change.kind}, line {mutant.change.line})")
    stale = []
    if not options.pattern:
        stale = sorted(set(EQUIVALENT) - {mutant.key for mutant in equivalent})
        for key in stale:
            print(f"OUT OF DATE  listed as equivalent, but killed or gone: {key}")
    for kind, count in sorted(kinds.items()):
        print(f"{count:6d}  {kind}")
    different = len(mutants) - len(equivalent)
    killed = different - len(survivors)
    print(
        f"{len(mutants)} mutants, {len(equivalent)} of them equivalent (see tools/mutants/equivalent.py); "
        f"{killed} of {different} others killed, {100 * killed / max(different, 1):.1f} %, "
        f"in {time.perf_counter() - started:.0f} s"
    )
    return 1 if survivors or stale else 0


def record():
    """Record the values that every rule computes on its cases."""
    import_all()
    values = {}
    for name, cases in checks.CASES.items():
        for position, case in enumerate(cases):
            if name in PRIMITIVES:
                inputs, parameters = checks.drawn(name, position)
                with ta.reference():
                    assert f"{name} {case}" not in values, f"duplicate case: {name} {case}"
                    values[f"{name} {case}"] = checks.digest(
                        PRIMITIVES[name](*inputs, **parameters)
                    )
    checks.RECORD.write_text(json.dumps(values, indent=0) + "\n")
    print(f"{len(values)} values")
    return 0


sys.exit(main())
